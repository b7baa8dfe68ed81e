"""What people write about attention, as statements: documents to values and equations.

Whether they are right is for `regard.worked` to say.
"""
