"""What several tasks share: synthetic data, and measurements of a trained model."""
