"""Input data of which a share lies on disk (Harmony, 4.3.3), and how large that share is."""
