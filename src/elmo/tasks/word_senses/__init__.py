"""Word sense disambiguation."""
