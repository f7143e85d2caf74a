#!/usr/bin/env python3
"""Makes quantised models of the tiny models of many families, for test_families.

    quantise_families.py FAMILIES... OUT

For each FAMILIES/NAME.gguf, whose weights are F32 or BF16, and each of the types Q8_0 and Q4_0:

    OUT/NAME.TYPE.gguf      its matrices quantised by the gguf package
    OUT/NAME.TYPE.F32.gguf  the same matrices, as the gguf package reads them from that file, in F32

Keeps files that are newer than their sources. If there are no such models or no gguf package, prints why and exits
with 77. `tools/setup clients` installs the package.
"""
import os
import pathlib
import sys

CLIENTS_PYTHON = pathlib.Path("~/.cache/billow/clients/python/bin/python").expanduser()
SKIPPED = 77

try:
    import gguf
    from gguf.quants import dequantize, quantize
except ImportError:
    if CLIENTS_PYTHON.exists() and "BILLOW_QUANTISE_AGAIN" not in os.environ:
        os.environ["BILLOW_QUANTISE_AGAIN"] = "1"
        os.execv(CLIENTS_PYTHON, [str(CLIENTS_PYTHON), *sys.argv])
    print("skipped: no Python package gguf here; tools/setup clients installs it")
    sys.exit(SKIPPED)

TYPES = (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0)

FLOATS = (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.BF16)

# Name parts of tensors that no product uses, or that no program quantises.
KEPT = ("_norm.weight", "ffn_gate_inp", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv",
        "position_embd", "token_types", "time_mix_lerp")


def is_quantised(tensor, group_len):
    sizes = [int(size) for size in tensor.shape]
    n_dims = max((i + 1 for i, size in enumerate(sizes) if size > 1), default=1)
    return (tensor.tensor_type in FLOATS and n_dims >= 2 and tensor.name.endswith(".weight")
            and sizes[0] % group_len == 0 and not any(part in tensor.name for part in KEPT))


def new_writer(reader, path):
    """Returns a writer with the metadata of the file that `reader` has read."""
    writer = gguf.GGUFWriter(path, reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        sub_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=sub_type)
    return writer


def quantise(source, kind, out, out_f32):
    group_len, _ = gguf.GGML_QUANT_SIZES[kind]
    reader = gguf.GGUFReader(source)
    partial = [path.with_suffix(".partial") for path in (out, out_f32)]
    quantised, plain = (new_writer(reader, path) for path in partial)
    for tensor in reader.tensors:
        is_float = tensor.tensor_type in FLOATS
        values = dequantize(tensor.data, tensor.tensor_type) if is_float else tensor.data
        if is_quantised(tensor, group_len):
            codes = quantize(values, kind)
            quantised.add_tensor(tensor.name, codes, raw_dtype=kind)
            plain.add_tensor(tensor.name, dequantize(codes, kind))
        else:
            for writer in (quantised, plain):
                writer.add_tensor(tensor.name, values, raw_dtype=None if is_float else tensor.tensor_type)
    for writer, path, final in zip((quantised, plain), partial, (out, out_f32)):
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(path, final)


def main():
    *families, out = (pathlib.Path(argument) for argument in sys.argv[1:])
    sources = sorted(path for folder in families for path in folder.glob("*.gguf"))
    if not sources:
        print(f"skipped: no models in {', '.join(map(str, families))}")
        sys.exit(SKIPPED)
    out.mkdir(parents=True, exist_ok=True)
    n_made = 0
    for source in sources:
        needed = max(path.stat().st_mtime for path in (source, pathlib.Path(__file__)))
        for kind in TYPES:
            made = out / f"{source.stem}.{kind.name}.gguf"
            made_f32 = out / f"{source.stem}.{kind.name}.F32.gguf"
            if not all(path.exists() and path.stat().st_mtime > needed for path in (made, made_f32)):
                quantise(source, kind, made, made_f32)
                n_made += 1
    print(f"{len(sources)} families in {len(TYPES)} types in {out}, {n_made} of them new")


if __name__ == "__main__":
    main()
