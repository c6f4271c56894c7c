"""The catalogue of known pairs; downloaded models live in the data folder, never here."""
