"""The page of `elmo explore`: a text colored by the units of a recurrent network."""
