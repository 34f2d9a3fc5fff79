"""Which word a statement gets, how near is near enough, and how two scorecards differ."""
