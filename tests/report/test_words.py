from nmfmerge.report.words import printable


def test_names_are_made_printable():
    assert printable("a\udcff\x1b[2Jé×") == "a��[2Jé×"
