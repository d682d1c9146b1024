"""ONNX: the exported model, run by ONNX Runtime."""
