"""Tests of arrays and JSON for pages."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.lab.pages.page_data import DTYPES, encode_array, script_json


@pytest.mark.parametrize("dtype", DTYPES)
def test_encode_array_keeps_values_shape_and_little_endian_order(dtype):
    array = np.arange(6).reshape(2, 3).astype(np.dtype(dtype).newbyteorder(">"))
    encoded = encode_array(array)
    little = np.dtype(dtype).newbyteorder("<")
    decoded = np.frombuffer(base64.b64decode(encoded["base64"]), little)
    np.testing.assert_array_equal(decoded.reshape(encoded["shape"]), array)
    assert encoded["dtype"] == dtype


def test_encode_array_orders_transposed_arrays_by_row():
    array = np.arange(6, dtype=np.int8).reshape(2, 3).T
    assert base64.b64decode(encode_array(array)["base64"]) == bytes([0, 3, 1, 4, 2, 5])


def test_encode_array_rejects_types_that_pages_cannot_read():
    with pytest.raises(TypeError, match="float64"):
        encode_array(np.zeros(3))


@given(st.text())
def test_script_json_keeps_any_text_without_markup(text):
    encoded = script_json({"text": text, text: 1})
    assert json.loads(encoded) == {"text": text, text: 1}
    assert encoded.isascii()
    assert not set("<>&") & set(encoded)


def test_script_json_escapes_end_of_script_and_lone_surrogates():
    text = "</script><!-- \u2028 \ud800 '\""
    assert json.loads(script_json([text])) == [text]
    assert "</" not in script_json([text])


def test_script_json_rejects_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json([float("nan")])
