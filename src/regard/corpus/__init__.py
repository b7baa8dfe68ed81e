"""A model over many texts: numbers of every text and head, in tables that other programs read.

Start reading at `make` (`api.py`): it lists the texts into a plan of units (`sources`, `reading`,
`plan`), has workers read them (`unit`, `measure`, `sketch`), here, in processes or on Ray, each
unit to a shard that is whole or not there (`shard`), and writes the manifest last. `load_corpus`
opens what came of it.
"""

from regard.corpus.api import Progress, make
from regard.corpus.corpus import Corpus, load_corpus
from regard.corpus.errors import CorpusError

__all__ = ["Corpus", "CorpusError", "Progress", "load_corpus", "make"]
