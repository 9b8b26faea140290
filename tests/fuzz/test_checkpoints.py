from tests.fuzz.checkpoints import fuzz


def test_no_damaged_or_foreign_checkpoint_leads_to_another_answer():
    assert fuzz(cases=400, seed=0) == 0
