"""From an attack's guesses, the truth and references to score rows, one for each private image or update."""
