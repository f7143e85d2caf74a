#!/usr/bin/env python3
"""Records the results of llama.cpp's converter for small checkpoints of many families: tests/convert/golden/NAME.json.

    record_golden.py OUT --converter DIR [--only NAME,...] [--keep FOLDER]

Names and shapes of a checkpoint are those that Hugging Face transformers saves for a small configuration. If transformers
lacks a class, golden_families.py has its names and shapes. Weights are a fixed pattern of their names (sample_value() of
src/convert/sample_model.h), so a test can make the same checkpoint again without torch. A file has:

    config      config.json
    checkpoint  names and shapes of the tensors, all F32
    texts       further files (optional)
    keys        metadata of the GGUF file, without general.* and tokenizer.*
    dense       shapes of the layers after pooling, by folder (optional)
    tensors     by name: shape in GGUF's order, type for BF16 output, and the digest of the values in F32. If the last
                digits are uncertain (exponential functions, rotations computed in floats): the values instead.

DIR has llama.cpp's conversion/ and gguf-py/. FOLDER gets the checkpoints and the GGUF files.
"""
import argparse
import json
import logging
import pathlib
import shutil
import sys
import tempfile
import traceback

import numpy as np
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "families")]
import golden_families  # noqa: E402
import make_fixtures  # noqa: E402

MASK = (1 << 64) - 1
OPEN_VALUES = ("rope_freqs", "ssm_a", "rope_factors")


def pattern(name, n):
    """Returns sample_value() of src/convert/sample_model.h for the first n numbers of a tensor."""
    start = 1469598103934665603
    for byte in name.encode():
        start = ((start ^ byte) * 1099511628211) & MASK
    hashes = (np.arange(n, dtype=np.uint64) ^ np.uint64(start)) * np.uint64(1099511628211)
    return (((hashes >> np.uint64(40)) % np.uint64(127)).astype(np.float32) - 63) / 64


def digest(values):
    """Returns the sum of all words, each times a number of its place, modulo 2^64."""
    words = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).reshape(-1).astype(np.uint64)
    places = (np.arange(len(words), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    places ^= places >> np.uint64(29)
    return f"{int((words * places).sum(dtype=np.uint64)):016x}"


def convert(kind, folder, hparams, file_type, out, family, gguf):
    kind.no_mtp = not getattr(family, "mtp", False)
    for name in ("lerp_weights", "_experts_cache", "_alpha_n", "_alpha_p", "_beta", "_eps"):  # of the previous model
        if hasattr(kind, name):
            setattr(kind, name, {})
    if hasattr(kind, "module_paths"):
        kind.module_paths, kind.dense_features_dims = [], {}
    with torch.inference_mode():
        kind(folder, file_type, out, use_temp_file=False, eager=True, hparams=hparams,
             sentence_transformers_dense_modules=bool(getattr(family, "dense", {}))).write()
    return gguf.GGUFReader(out)


def value_of(field):
    value = field.contents()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        value = [str(x) if x in (float("inf"), float("-inf")) else x for x in value]
    return value


def replace_vocabularies(conversion):
    """Makes the converter skip the vocabulary, which other tests check."""
    def set_vocab(converter):
        converter.gguf_writer.add_tokenizer_model("gpt2")
    classes = [conversion.base.TextModel]
    while classes:
        one = classes.pop()
        classes += one.__subclasses__()
        if "set_vocab" in vars(one):
            one.set_vocab = set_vocab


def make_checkpoint(family, folder):
    """Writes the checkpoint's folder; returns config.json and the shapes of all tensors."""
    from safetensors.numpy import save_file
    if isinstance(family, golden_families.Written):
        config, shapes = dict(family.config), dict(family.tensors)
    else:
        make_fixtures.save(make_fixtures.new_model(family), family, folder)
        config = json.loads((folder / "config.json").read_text())
        from safetensors import safe_open
        with safe_open(folder / "model.safetensors", "np") as weights:
            shapes = {name: list(weights.get_slice(name).get_shape()) for name in weights.keys()}
        for name, value in family.patch.items():
            if value is make_fixtures.REMOVED:
                config.pop(name, None)
            else:
                config[name] = value
    shapes |= getattr(family, "extra", {})
    for name in ("dtype", "transformers_version", "_name_or_path"):
        config.pop(name, None)
        for part in config.values():
            if isinstance(part, dict):
                part.pop(name, None)
    (folder / "config.json").write_text(json.dumps(config))
    n_words = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size") or 160
    (folder / "tokenizer.json").write_text(json.dumps(
        {"added_tokens": [], "model": {"type": "BPE", "vocab": {f"t{i}": i for i in range(n_words)}, "merges": []}}))
    weights = {}
    for name, shape in shapes.items():
        weights[name] = pattern(name, int(np.prod(shape, dtype=np.int64))).reshape(shape)
    for name in getattr(family, "bytes", ()):  # packed weights
        weights[name] = (np.abs(weights[name]) * 64 + 96).astype(np.uint8)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    dense = getattr(family, "dense", {})
    for folder_name, shape in dense.items():
        (folder / folder_name).mkdir()
        save_file({"linear.weight": pattern("linear.weight", shape[0] * shape[1]).reshape(shape)},
                  folder / folder_name / "model.safetensors", metadata={"format": "pt"})
        (folder / folder_name / "config.json").write_text(json.dumps(
            {"in_features": shape[1], "out_features": shape[0], "bias": False,
             "activation_function": "torch.nn.modules.linear.Identity"}))
    if dense:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
        kinds = {"": "Transformer", "1_Pooling": "Pooling"} | dict.fromkeys(dense, "Dense")
        (folder / "modules.json").write_text(json.dumps(
            [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]))
    return config, shapes


def record(name, family, out, folder, conversion, gguf):
    (folder / name).mkdir(parents=True)
    folder = folder / name
    config, shapes = make_checkpoint(family, folder)
    hparams = None
    if isinstance(family, golden_families.Written) or family.patch:
        hparams = conversion.ModelBase.load_hparams(folder, False) | config
        for key, value in getattr(family, "patch", {}).items():
            if value is make_fixtures.REMOVED:
                hparams.pop(key, None)
    architecture = conversion.get_model_architecture(
        hparams or conversion.ModelBase.load_hparams(folder, False), conversion.ModelType.TEXT)
    kind = conversion.get_model_class(architecture, mmproj=False)
    replace_vocabularies(conversion)
    readers = []
    for file_type in (gguf.LlamaFileType.ALL_F32, gguf.LlamaFileType.MOSTLY_BF16):
        given = json.loads(json.dumps(hparams)) if hparams else None
        readers.append(convert(kind, folder, given, file_type, folder / f"{file_type.name}.gguf",
                               family, gguf))
    floats, halves = readers
    types = {tensor.name: tensor.tensor_type.name for tensor in halves.tensors}
    tensors = {}
    for tensor in floats.tensors:
        row = [[int(n) for n in tensor.shape], types[tensor.name]]
        if tensor.tensor_type.name != "F32":
            row.append(digest(tensor.data.reshape(-1).astype(np.float32)))
        elif any(part in tensor.name for part in OPEN_VALUES):
            row.append([float(f"{x:.9g}") for x in np.asarray(tensor.data).reshape(-1)])
        else:
            row.append(digest(tensor.data))
        tensors[tensor.name] = row
    keys = {field.name: value_of(field) for field in floats.fields.values()
            if not field.name.startswith(("GGUF.", "general.", "tokenizer."))}
    keys["general.architecture"] = floats.get_field("general.architecture").contents()
    about = {"judge": f"llama.cpp's converter, transformers {transformers.__version__}", "config": config}
    if getattr(family, "bytes", ()):
        about["bytes"] = list(family.bytes)
    if getattr(family, "dense", {}):
        about["dense"] = family.dense
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in about.items()]
    for key, table in (("checkpoint", shapes), ("keys", keys), ("tensors", tensors)):
        rows = ",\n".join(f"  {json.dumps(row)}: {json.dumps(value)}" for row, value in sorted(table.items()))
        lines.append(f" {json.dumps(key)}: {{\n{rows}}}")
    (out / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{name}: {keys['general.architecture']}, {len(tensors)} tensors, "
          f"{(out / f'{name}.json').stat().st_size // 1024} KiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--converter", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--trace", action="store_true", help="show where an error came from")
    arguments = parser.parse_args()
    sys.path[:0] = [arguments.converter + "/gguf-py", arguments.converter]
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    import conversion
    import gguf
    arguments.out.mkdir(parents=True, exist_ok=True)
    above = arguments.keep or pathlib.Path(tempfile.mkdtemp())
    failed = []
    for name in arguments.only.split(",") if arguments.only else golden_families.FAMILIES:
        try:
            shutil.rmtree(above / name, ignore_errors=True)
            record(name, golden_families.FAMILIES[name], arguments.out, above, conversion, gguf)
        except Exception as error:  # pylint: disable=broad-except
            failed.append(name)
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            if arguments.trace:
                traceback.print_exc()
    if not arguments.keep:
        shutil.rmtree(above, ignore_errors=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
