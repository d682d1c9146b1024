"""TensorFlow: the zoo's simplest networks as Keras models."""
