"""The verdicts: which word a statement gets, at which tolerance, and how two scorecards differ."""
