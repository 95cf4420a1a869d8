declare module "onnxruntime-web/wasm";
