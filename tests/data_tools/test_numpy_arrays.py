"""Arrays of numpy wherever octets go in: the items of any type, in the order in which they are in memory."""

from __future__ import annotations

import pytest

from rpcrdma.wire import as_view
from rpcrdma.xdr.codec import Encoder
from tool_runs import require


@pytest.mark.data_tools
@pytest.mark.parametrize("kind", ["u1", "<f8", ">f8", "c16", "f2", "?", "i4,f8", "S3"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 3), (2, 3, 4)])
def test_arrays_of_any_type_and_shape_are_their_octets(kind: str, shape: tuple[int, ...]) -> None:
    require("numpy")
    import numpy as np

    array = np.zeros(shape, kind)
    view = as_view(array, "it", writable=True)
    assert (view.format, view.ndim, len(view)) == ("B", 1, array.nbytes)
    view[:] = bytes(number % 251 for number in range(1, 1 + len(view)))
    assert array.tobytes() == bytes(view)


@pytest.mark.data_tools
def test_arrays_in_another_order_or_with_gaps_are_refused_with_the_remedy() -> None:
    require("numpy")
    import numpy as np

    square = np.arange(12.0).reshape(3, 4)
    for array in (
        np.asfortranarray(square),
        square.T,
        square[:, ::2],
        square[::-1],
        np.broadcast_to(square[0], (3, 4)),
    ):
        with pytest.raises(TypeError, match=r"it: .*not C-contiguous.*numpy\.ascontiguousarray"):
            as_view(array, "it")
        assert bytes(as_view(np.ascontiguousarray(array), "it")) == array.tobytes()
    with pytest.raises(TypeError, match="it: the ndarray does not show its octets"):
        as_view(np.zeros(3, "M8[s]"), "it")


@pytest.mark.data_tools
def test_an_array_in_one_dimension_of_a_column_is_opaque_data() -> None:
    require("numpy")
    import numpy as np

    encoder = Encoder()
    encoder.bulk(memoryview(np.arange(10.0)), 80, "data")
    (item,) = encoder.items
    assert bytes(item.data) == np.arange(10.0).tobytes()
