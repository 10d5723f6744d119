"""Quantizers for the formats that the gguf package only decodes: every value goes to the nearest one that its block can hold,
with scales found by trying a few. They make no bytes, only the values that would come back, for format_table.py's errors:
an upper bound, since makers of files weigh errors by activations and search longer.
"""
import gguf.quants
import numpy as np

IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float32)
TRIED = np.linspace(0.6, 1.1, 8, dtype=np.float32)  # of the scale that reaches the largest value


def _safe(x):
    return np.where(x == 0, 1, x)


def affine(x, bits, sub, scale_bits):
    """Q2_K, Q4_K, Q5_K: scale and minimum of each sub-block, themselves in scale_bits."""
    x = x.reshape(-1, 256 // sub, sub)
    top = 2 ** scale_bits - 1
    low = np.maximum(-x.min(axis=2, keepdims=True), 0)
    scale = (x.max(axis=2, keepdims=True) + low) / (2 ** bits - 1)
    d, dmin = scale.max(axis=1, keepdims=True) / top, low.max(axis=1, keepdims=True) / top
    scale, low = d * np.round(scale / _safe(d)), dmin * np.round(low / _safe(dmin))
    return scale * np.clip(np.round((x + low) / _safe(scale)), 0, 2 ** bits - 1) - low


def _coded(x, scale, book):
    """Each value to the nearest of scale * book; book rising."""
    edges = (book[1:] + book[:-1]) / 2
    return scale * book[np.searchsorted(edges, x / _safe(scale))]


def _best(x, scales, code):
    """Of the scales tried, the one with the least error in each sub-block."""
    errors = [((code(x, s) - x) ** 2).sum(axis=2, keepdims=True) for s in scales]
    return np.take_along_axis(np.stack(scales), np.argmin(np.stack(errors), axis=0)[None], axis=0)[0]


def coded(x, book, sub, scale_bits):
    """Q3_K, Q6_K, IQ4_NL, IQ4_XS: values of a book times a scale, which has scale_bits and a sign, or none are lost of it."""
    x = x.reshape(-1, 256 // sub, sub)
    most = np.abs(x).max(axis=2, keepdims=True) / np.abs(book).max()
    def code(v, s):
        return _coded(v, s, book)
    scale = _best(x, [sign * most * t for t in TRIED for sign in (1, -1)], code)
    if scale_bits:
        d = np.abs(scale).max(axis=1, keepdims=True) / (2 ** (scale_bits - 1) - 1)
        scale = d * np.round(scale / _safe(d))
    return code(x, scale)


def _in_grid(v, grid):
    """Rows to the nearest rows of the grid."""
    flat, lengths = v.reshape(-1, grid.shape[1]), (grid ** 2).sum(axis=1)
    out = np.empty_like(flat)
    for i in range(0, len(flat), 4096):
        out[i:i + 4096] = grid[np.argmin(lengths - 2 * flat[i:i + 4096] @ grid.T, axis=1)]
    return out.reshape(v.shape)


def _even_signs(x):
    """Signs of groups of eight, of which seven are kept: an odd number of minus signs flips the smallest value's."""
    groups = x.reshape(-1, 8)
    signs = np.where(groups < 0, -1, 1).astype(np.float32)
    odd = np.flatnonzero(signs.prod(axis=1) < 0)
    signs[odd, np.abs(groups[odd]).argmin(axis=1)] *= -1
    return signs.reshape(x.shape)


def _odd_scales(scale, scale_bits):
    """d * (2 s + 1), s in scale_bits; d is the block's."""
    top = 2 ** scale_bits - 1
    d = scale.max(axis=1, keepdims=True) / (2 * top + 1)
    return d * (2 * np.clip(np.round((scale / _safe(d) - 1) / 2), 0, top) + 1)


def in_grid(x, name, sub, scale_bits, even):
    """IQ2 and IQ3: magnitudes of a grid with signs beside."""
    kind = getattr(gguf.quants, name)
    kind.init_grid()
    grid = kind.grid.reshape(kind.grid_shape).astype(np.float32)
    x = x.reshape(-1, 256 // sub, sub)
    signs = _even_signs(x) if even else np.where(x < 0, -1, 1).astype(np.float32)
    most = np.abs(x).max(axis=2, keepdims=True) / grid.max()
    def code(v, s):
        return s * signs * _in_grid(np.maximum(v * signs, 0) / _safe(s), grid)
    return code(x, _odd_scales(_best(x, [most * t for t in TRIED], code), scale_bits))


def ternary(x, name, sub, delta_of):
    """IQ1: rows of -1, 0 and 1, all moved by an eighth up or down, by groups of delta_of."""
    kind = getattr(gguf.quants, name)
    kind.init_grid()
    grid = kind.grid.reshape(kind.grid_shape).astype(np.float32)
    x = x.reshape(-1, 256 // sub, sub)
    def code(v, s):
        both = [s * (_in_grid(v / _safe(s) - delta, grid) + delta) for delta in (0.125, -0.125)]
        errors = [((b - v) ** 2).reshape(*v.shape[:2], -1, delta_of).sum(axis=3, keepdims=True) for b in both]
        plus = np.broadcast_to(errors[0] <= errors[1], (*v.shape[:2], sub // delta_of, delta_of)).reshape(v.shape)
        return np.where(plus, both[0], both[1])
    most = np.abs(x).max(axis=2, keepdims=True) / 1.125
    return code(x, _odd_scales(_best(x, [most * t for t in TRIED], code), 3))


def _steps(bits):
    return np.arange(-2 ** (bits - 1), 2 ** (bits - 1), dtype=np.float32)


QUANTIZERS = {
    "Q2_K": lambda x: affine(x, 2, 16, 4),
    "Q3_K": lambda x: coded(x, _steps(3), 16, 6),
    "Q4_K": lambda x: affine(x, 4, 32, 6),
    "Q5_K": lambda x: affine(x, 5, 32, 6),
    "Q6_K": lambda x: coded(x, _steps(6), 16, 8),
    "IQ4_NL": lambda x: coded(x, IQ4, 32, 0),
    "IQ4_XS": lambda x: coded(x, IQ4, 32, 6),
    "IQ2_XXS": lambda x: in_grid(x, "IQ2_XXS", 32, 4, True),
    "IQ2_XS": lambda x: in_grid(x, "IQ2_XS", 16, 4, True),
    "IQ2_S": lambda x: in_grid(x, "IQ2_S", 16, 4, False),
    "IQ3_XXS": lambda x: in_grid(x, "IQ3_XXS", 32, 4, True),
    "IQ3_S": lambda x: in_grid(x, "IQ3_S", 32, 4, False),
    "IQ1_S": lambda x: ternary(x, "IQ1_S", 32, 32),
    "IQ1_M": lambda x: ternary(x, "IQ1_M", 16, 8),
}
