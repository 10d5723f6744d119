"""What can be read off the shaders where no device here runs them: kernels for wide heads want more workgroup memory than
a GPU in software has."""
import re

from support import ROOT

SHADERS = ROOT / "src/backend/webgpu/shaders"


def test_each_sixteen_elements_of_a_head_are_taken_from_their_place():
    """prompt_attend.wgsl names them one by one, since matrices cannot be an array: in fours from the row's beginning."""
    text = (SHADERS / "prompt_attend.wgsl").read_text()
    taken = r"if \([KV]_DIM > (\d+)u\) \{ .*(?:load_left|load_right_columns|add_values)\((?:at \+ )?(\d+)u,"
    places = [(int(element), int(four)) for element, four in re.findall(taken, text)]
    assert len(places) == 3 * 7  # of queries, keys and values, each but the first sixteen
    assert all(four == element // 4 for element, four in places)
