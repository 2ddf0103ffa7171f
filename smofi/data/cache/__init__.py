"""The user's cache: what takes long to make is made once, and what is damaged is made anew.

home           where it lies, and what a data set's files look like from outside
datasets       data sets, decoded once
resized        their images, brought to another size once
moments        mean and deviation of a data set, found as it is decoded
arrays         a folder of arrays that reveals its own damage
checks         which large files were found whole before, and need not be read again
promises       what every reader promises of a data set
unfinished     what is being written; what killed processes left is cleared
"""

from smofi.data.cache.arrays import Damaged
from smofi.data.cache.datasets import cached, exists, find, store
from smofi.data.cache.home import data_home, fingerprint
from smofi.data.cache.moments import with_moments
from smofi.data.cache.resized import ResizedImages

__all__ = [
    "Damaged",
    "cached",
    "data_home",
    "exists",
    "find",
    "fingerprint",
    "ResizedImages",
    "store",
    "with_moments",
]
