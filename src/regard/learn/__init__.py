"""The course: eight short lessons on attention, with live pictures and questions."""

from __future__ import annotations

from regard.learn.course import LESSONS, lesson, lessons
from regard.learn.lesson import Lesson

__all__ = ["LESSONS", "Lesson", "lesson", "lessons"]
