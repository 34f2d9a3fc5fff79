"""From an attack's guesses and the truth to rows: one for each private image, and for what stands for
nobody's guess."""
