from tests.fuzz import api


def test_a_thousand_calls_give_a_valid_result_or_a_clear_refusal(capsys):
    failures = api.fuzz(1000, seed=0)
    assert failures == 0, capsys.readouterr().out


def test_cases_can_be_repeated():
    assert api.describe(3, 17) == api.describe(3, 17)
    assert len({str(api.describe(0, i)) for i in range(20)}) == 20
