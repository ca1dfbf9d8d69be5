"""`.offsetfs`: what a mount does can be seen and steered there."""
