"""The verbs: each is a rule of the workflow, a subcommand and a function of the same name."""
