from itertools import product

import numpy as np
import pytest

from nmfmerge.fields.mutations import KINDS, places_of, recognised

OTHER = dict(zip("ACGT", "TGCA", strict=True))


def reverse(bases):
    return "".join(OTHER[base] for base in reversed(bases))


@pytest.mark.parametrize("name", KINDS)
def test_the_number_in_the_name_is_that_of_the_types(name):
    types = KINDS[name].types
    assert len(types) == len(set(types)) == int(name[-2:])
    assert len(KINDS[name].groups) == len(types)


def test_every_substitution_has_one_type_on_either_strand():
    types = set(KINDS["SBS96"].types)
    for a, b, c, to in product("ACGT", repeat=4):
        if b != to:
            name, other = f"{a}[{b}>{to}]{c}", f"{OTHER[c]}[{OTHER[b]}>{OTHER[to]}]{OTHER[a]}"
            assert len({name, other} & types) == 1


def test_every_doublet_change_has_one_type_on_either_strand():
    types = set(KINDS["DBS78"].types)
    for a, b, c, d in product("ACGT", repeat=4):
        if a != c and b != d:
            assert len({f"{a}{b}>{c}{d}", f"{reverse(a + b)}>{reverse(c + d)}"} & types) == 1


def test_microhomology_is_shorter_than_the_deletion():
    sizes = [name.split(":")[::3] for name in KINDS["ID83"].types if ":M:" in name]
    assert sizes == [[str(n), str(k)] for n in (2, 3, 4) for k in range(1, n)] + [
        ["5", str(k)] for k in range(1, 6)
    ]


SPELLINGS = {
    "SBS96": [
        ("A[C>A]G", "a[c>a]g", "ACG>AAG", "ACG>A", "C>A:ACG", "C>A A.G", "CA A.G", "C>A_A_G",
         "ACG:C>A", "A.G:C>A", "C[G>T]T", "CGT>CTT"),
        ("T[T>G]C", "TTC>TGC", "T>G:TTC", "TG T.C", "G[A>C]A"),
    ],
    "DBS78": [("AC>CA", "AC:CA", "DBS_AC>CA", "GT>TG"), ("CG>AT", "CG>AT")],
    "ID83": [
        ("1:Del:C:5", "DEL_C_1_5+", "1:del:G:5+"), ("5:Ins:R:0", "INS_repeats_5+_0"),
        ("2:Del:M:1", "DEL_MH_2_1"),
    ],
    "CNV48": [("0:homdel:>1Mb", "0:HomDel:>1MB"), ("9+:LOH:100kb-1Mb", "9+:loh: 100kb - 1mb")],
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_common_spellings_are_the_same_type(name):
    kind = KINDS[name]
    for spellings in SPELLINGS[name]:
        assert set(kind.places(spellings)) == {kind.types.index(spellings[0])}


@pytest.mark.parametrize("text", ["A[C>C]A", "ACA>CAA", "A[C>A]", "gene1", "C>A:ATA", "6:Del:C:0"])
def test_other_names_are_no_types(text):
    assert all(kind.places([text]) == [None] for kind in KINDS.values())


@pytest.mark.parametrize("name", KINDS)
def test_any_order_is_recognised(name):
    kind = KINDS[name]
    order = np.random.default_rng(1).permutation(len(kind.types))
    names = [kind.types[i] for i in order]
    assert recognised(names) is kind
    np.testing.assert_array_equal(places_of(kind, names), order)


def test_names_of_other_things_are_not_recognised():
    assert recognised(["TP53", "BRCA1"]) is None
    assert recognised([]) is None


def test_unknown_and_repeated_types_are_named():
    kind = KINDS["SBS96"]
    with pytest.raises(ValueError, match=r"'total' is not among the mutation types of SBS96"):
        places_of(kind, [*kind.types, "total"])
    with pytest.raises(ValueError, match=r"'A\[C>A\]A', 'ACA>AAA' .* more than once"):
        places_of(kind, [*kind.types, "ACA>AAA"])
