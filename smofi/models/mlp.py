"""Linear layers with ReLU between them, for samples that are vectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from smofi.errors import check_count
from smofi.models.catalogue import check_vector_shape
from smofi.models.layers import chain, initialise


def _layer(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(OrderedDict(linear=nn.Linear(inputs, outputs), relu=nn.ReLU()))


def mlp(classes: int, input_shape: Sequence[int], width: int = 128) -> nn.Sequential:
    """Two core blocks; every layer but the last has `width` features.

    >>> list(dict(mlp(classes=3, input_shape=(4,)).named_children()))
    ['input', 'core1', 'core2', 'output']
    """
    features = check_vector_shape(input_shape, "features")
    check_count("classes", classes, low=2)
    check_count("width", width)
    output = nn.Sequential(OrderedDict(linear=nn.Linear(width, classes)))
    return initialise(chain([_layer(features, width), _layer(width, width), _layer(width, width), output]))
