#!/usr/bin/env python3
"""Records the projectors that llama.cpp's converter makes of small vision-language models: golden/pictures/NAME.json.

    record_pictures.py OUT --converter DIR [--only NAME,...]

This works like record_golden.py. A file has:

    config      config.json
    processor   preprocessor_config.json
    checkpoint  names and shapes of the tensors, all F32
    break       the number of the word [IMG_BREAK]
    text        general.architecture of the text model
    keys        metadata of the projector, without general.*
    differs     keys whose values Billow changes or adds on purpose; docs/converting.md explains them
    tensors     by name: shape in GGUF's order, types for BF16 and for F16 output, and the digest of the values for F32 output
"""
import argparse
import json
import logging
import pathlib
import re
import sys
import tempfile
import traceback

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "families")]
import golden_pictures  # noqa: E402
from record_golden import digest, pattern, replace_vocabularies, value_of  # noqa: E402


def without_notes(config):
    """Removes fields that only describe who wrote the file."""
    if not isinstance(config, dict):
        return config
    return {key: without_notes(value) for key, value in config.items()
            if key not in ("dtype", "transformers_version", "_name_or_path", "id2label", "label2id")}


def make_checkpoint(family, folder):
    """Writes the checkpoint's folder; returns config.json and the shapes of all tensors."""
    from safetensors import safe_open
    from safetensors.numpy import save_file
    config = transformers.AutoConfig.for_model(family.kind, text_config=family.text, vision_config=family.vision, **family.top)
    model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    with safe_open(folder / "model.safetensors", "np") as file:
        shapes = {golden_pictures.renamed(name, family.names): list(file.get_slice(name).get_shape()) for name in file.keys()}
    shapes = dict(filter(None, (golden_pictures.joined(name, shape) for name, shape in shapes.items())))
    config = without_notes(json.loads((folder / "config.json").read_text())) | family.changes
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(family.processor))
    words = {f"t{i}": i for i in range(config["text_config"]["vocab_size"])}
    added = [{"id": golden_pictures.BREAK, "content": "[IMG_BREAK]", "special": True}]
    (folder / "tokenizer.json").write_text(json.dumps(
        {"added_tokens": added, "model": {"type": "BPE", "vocab": words, "merges": []}}))
    (folder / "tokenizer_config.json").write_text("{}")
    weights = {name: pattern(name, int(np.prod(shape, dtype=np.int64))).reshape(shape) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return config, shapes


def with_names(kind, corrections):
    class Corrected(kind):
        def map_tensor_name(self, *arguments, **named):
            name = super().map_tensor_name(*arguments, **named)
            for wrong, right in corrections:
                name = re.sub(wrong, right, name)
            return name
    return Corrected


def record(name, family, out, folder, conversion, gguf):
    config, shapes = make_checkpoint(family, folder)
    given = conversion.ModelBase.load_hparams(folder, False) | config
    kinds = [conversion.ModelType.MMPROJ, conversion.ModelType.TEXT]
    architectures = [conversion.get_model_architecture(json.loads(json.dumps(given)), kind) for kind in kinds]
    kind = with_names(conversion.get_model_class(architectures[0], mmproj=True), family.converter_names)
    readers = []
    for file_type in (gguf.LlamaFileType.ALL_F32, gguf.LlamaFileType.MOSTLY_BF16, gguf.LlamaFileType.MOSTLY_F16):
        path = folder / f"{file_type.name}.gguf"
        with torch.inference_mode():
            kind(folder, file_type, path, use_temp_file=False, eager=True, model_name="m", hparams=json.loads(json.dumps(given))).write()
        readers.append(gguf.GGUFReader(path))
    types = [{tensor.name: tensor.tensor_type.name for tensor in reader.tensors} for reader in readers[1:]]
    tensors = {tensor.name: [[int(n) for n in tensor.shape], *(of[tensor.name] for of in types),
                             digest(tensor.data.reshape(-1).astype(np.float32))] for tensor in readers[0].tensors}
    keys = {field.name: value_of(field) for field in readers[0].fields.values() if not field.name.startswith(("GGUF.", "general."))}
    replace_vocabularies(conversion)
    text_kind = conversion.get_model_class(architectures[1], mmproj=False)
    about = {"judge": f"llama.cpp's converter, transformers {transformers.__version__}", "config": config, "processor": family.processor,
             "break": golden_pictures.BREAK, "text": gguf.MODEL_ARCH_NAMES[text_kind.model_arch], "differs": family.differs}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in about.items()]
    for key, table in (("checkpoint", shapes), ("keys", keys), ("tensors", tensors)):
        rows = ",\n".join(f"  {json.dumps(row)}: {json.dumps(value)}" for row, value in sorted(table.items()))
        lines.append(f" {json.dumps(key)}: {{\n{rows}}}")
    (out / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{name}: {about['text']}, {keys.get('clip.projector_type')}, {len(tensors)} tensors", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--converter", required=True)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    sys.path[:0] = [arguments.converter + "/gguf-py", arguments.converter]
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    import conversion
    import gguf
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in arguments.only.split(",") if arguments.only else golden_pictures.FAMILIES:
        try:
            with tempfile.TemporaryDirectory() as folder:
                record(name, golden_pictures.FAMILIES[name], arguments.out, pathlib.Path(folder), conversion, gguf)
        except Exception as error:  # pylint: disable=broad-except
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
