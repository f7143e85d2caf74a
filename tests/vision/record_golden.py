#!/usr/bin/env python3
"""Records what the image processors of Hugging Face transformers make of 50 pictures.

  pip install torch torchvision transformers 'pillow<13' numpy num2words; tests/vision/record_golden.py

Recorded with transformers 5.24, torch 2.15, torchvision 0.29 and Pillow 12.3, on a CPU with AVX-512. On a CPU without
AVX2, torchvision resizes in floats. Pillow 13 resizes the columns first where this is faster, with other results.
Writes:

  golden/pictures/NAME.EXT   20 small files of all modes and EXIF orientations
  golden/NAME.json           one file for each configuration below
  golden/resize.json         resized pictures, by Pillow and by torchvision

The other 30 pictures are not stored. drawn() makes their pixels; src/vision/golden_test.cpp has the same formula.
Hashes are CRC-32. A sample is a grey level, two hexadecimal digits; sample k of n values is number k * 2654435761 % n.
"""
import io
import json
import pathlib
import re
import warnings
import zlib

import numpy as np
import torch
import transformers
from PIL import Image, ImageOps
from torchvision.transforms.v2 import functional as torchvision_functional

FOLDER = pathlib.Path(__file__).parent / "golden"
N_SAMPLES = 128
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
HALF = ([0.5] * 3, [0.5] * 3)
PLAIN = ([0.0] * 3, [1.0] * 3)

# Width, height and amplitude of the noise.
DRAWN = [
    (2, 2, 63), (2, 3, 63), (1, 64, 63), (64, 1, 63), (13, 17, 255), (28, 28, 0), (56, 55, 31), (150, 100, 31),
    (100, 150, 31), (225, 223, 255), (448, 448, 15), (333, 500, 63), (449, 896, 15), (500, 400, 31), (640, 480, 31),
    (479, 641, 31), (800, 300, 63), (300, 800, 63), (896, 896, 0), (1000, 1000, 15), (1024, 768, 31), (1250, 1000, 7),
    (1200, 900, 31), (1500, 200, 63), (200, 1500, 63), (1600, 1067, 7), (37, 1300, 127), (199, 1, 255), (2, 402, 255),
    (700, 3, 255),
]


def samples(levels):
    flat = levels.reshape(-1)
    return bytes(int(flat[k * 2654435761 % len(flat)]) for k in range(N_SAMPLES)).hex()


def drawn(width, height, amplitude):
    y, x = np.mgrid[0:height, 0:width].astype(np.int64)
    noise = (((x * 73856093) ^ (y * 19349663)) >> 7) & amplitude
    red = x * 255 // max(width - 1, 1)
    green = ((x * x + 3 * y * y) >> 6) & 255
    blue = np.where((x // 6 + y // 6) % 2 == 1, 215, 25)
    return np.minimum(np.stack([red, green, blue], -1) + noise[..., None], 255).astype(np.uint8)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def write_files():
    """Writes the pictures of all modes. Returns the names of the files."""
    rgb = Image.fromarray(drawn(61, 43, 7))
    y, x = np.mgrid[0:43, 0:61]
    alpha = Image.fromarray(((x * 9 + y * 5) % 256).astype(np.uint8))
    rgba = rgb.copy()
    rgba.putalpha(alpha)
    palette = rgb.quantize(32)
    deep = Image.fromarray((x * 1050 + y * 13).astype(np.uint16))
    files = {f"orientation{i}.jpg": saved(rgb, "JPEG", quality=85, exif=exif(i)) for i in range(1, 9)}
    files |= {
        "l.png": saved(rgb.convert("L"), "PNG"),
        "la.png": saved(Image.merge("LA", (rgb.convert("L"), alpha)), "PNG"),
        "p.png": saved(palette, "PNG"),
        "p_transparent.png": saved(palette, "PNG", transparency=3),
        "one_bit.png": saved(rgb.convert("1"), "PNG"),
        "rgb.png": saved(rgb, "PNG"),
        "rgba.png": saved(rgba, "PNG"),
        "deep.png": saved(deep, "PNG"),
        "cmyk.jpg": saved(rgb.convert("CMYK"), "JPEG", quality=85),
        "p.gif": saved(palette, "GIF"),
        "rgb.bmp": saved(rgb, "BMP"),
        "rgba.webp": saved(rgba, "WEBP", lossless=True, exact=True),
    }
    (FOLDER / "pictures").mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (FOLDER / "pictures" / name).write_bytes(data)
    return list(files)


def opened(name):
    """Returns the picture as transformers loads it. The 16-bit picture has its upper 8 bits, because Pillow clips it."""
    image = Image.open(FOLDER / "pictures" / name)
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    return ImageOps.exif_transpose(image)


# From a processor's output: planes (3 x height x width floats, one for each tile).
def planes_of_tensor(batch, processor):
    return list(batch["pixel_values"].reshape(-1, *batch["pixel_values"].shape[-3:]))


def planes_of_cropped(batch, processor):
    return [x[:, :h, :w] for x, (h, w) in zip(planes_of_tensor(batch, processor), batch["image_sizes"].tolist())]


def planes_of_qwen(batch, processor):
    _, rows, cols = batch["image_grid_thw"][0].tolist()
    p, m = processor.patch_size, processor.merge_size
    x = batch["pixel_values"].reshape(rows // m, cols // m, m, m, 3, 2, p, p)
    assert torch.equal(x[:, :, :, :, :, 0], x[:, :, :, :, :, 1])
    return [x[:, :, :, :, :, 0].permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * p, cols * p)]


def planes_of_gemma4(batch, processor):
    positions, p = batch["image_position_ids"][0], processor.patch_size
    cols, rows = (positions.max(0).values + 1).tolist()
    x = torch.zeros(rows, cols, p, p, 3)
    for value, (col, row) in zip(batch["pixel_values"][0], positions.tolist()):
        if col >= 0:
            x[row, col] = value.reshape(p, p, 3)
    return [x.permute(4, 0, 2, 1, 3).reshape(3, rows * p, cols * p)]


def planes_of_lfm2(batch, processor):
    p = processor.encoder_patch_size
    return [
        value[: h * w].reshape(h, w, p, p, 3).permute(4, 0, 2, 1, 3).reshape(3, h * p, w * p)
        for value, (h, w) in zip(batch["pixel_values"], batch["spatial_shapes"].tolist())
    ]


def text_of(cls, **attributes):
    """Returns replace_image_token() of a processor class, which needs no tokenizer for it."""

    def text(batch, image_processor):
        processor = object.__new__(getattr(transformers, cls))
        for key, value in {"image_processor": image_processor, **attributes}.items():
            object.__setattr__(processor, key, value)
        options = {"use_image_special_tokens": True} if cls == "Lfm2VlProcessor" else {}
        return processor.replace_image_token(batch, 0, **options)

    return text


def idefics3(n_tokens):
    return text_of("SmolVLMProcessor", image_seq_len=n_tokens, fake_image_token="<fake_token_around_image>",
                   image_token="@", global_image_token="<global-img>")


def pixtral(patch, merge):
    return text_of("PixtralProcessor", patch_size=patch, spatial_merge_size=merge, image_token="@",
                   image_break_token="[IMG_BREAK]", image_end_token="[IMG_END]")


def gemma3(n_tokens):
    return text_of("Gemma3Processor", full_image_sequence=f"\n\n<start_of_image>{'@' * n_tokens}<end_of_image>\n\n")


def llama4(batch, processor):
    text = text_of("Llama4Processor", patch_size=14, downsample_ratio=4)(batch, processor)
    return text.replace("<|patch|>", "@")


QWEN_TEXT = text_of("Qwen2VLProcessor", image_token="@")


def qwen(patch, min_pixels, max_pixels, colors):
    return ("Qwen2VLImageProcessor", dict(patch_size=patch, size=dict(shortest_edge=min_pixels, longest_edge=max_pixels),
            image_mean=colors[0], image_std=colors[1]), planes_of_qwen, QWEN_TEXT)


def config(projector, image, patch, colors, cls, options, planes, text, **keys):
    return dict(projector=projector, keys={"image_size": image, "patch_size": patch} | keys, colors=colors,
                cls=cls, options=options | dict(image_mean=colors[0], image_std=colors[1]), planes=planes, text=text)


def square(n):
    return dict(height=n, width=n)


# Name: the projector's keys, and the processor with the same numbers.
CONFIGS = {
    "gemma3": config("gemma3", 448, 14, HALF, "Gemma3ImageProcessor", dict(size=square(448), do_pan_and_scan=False),
                     planes_of_tensor, gemma3(64)),
    "gemma4": config("gemma4v", 224, 16, PLAIN, "Gemma4ImageProcessor", {}, planes_of_gemma4,
                     text_of("Gemma4Processor", boi_token="<|image>", image_token="@", eoi_token="<image|>")),
    "smolvlm": config("idefics3", 256, 16, HALF, "SmolVLMImageProcessor",
                      dict(size=dict(longest_edge=1024), max_image_size=dict(longest_edge=256), return_row_col_info=True),
                      planes_of_tensor, idefics3(16), preproc_image_size=1024, **{"projector.scale_factor": 4}),
    "idefics3": config("idefics3", 182, 14, HALF, "Idefics3ImageProcessor",
                       dict(size=dict(longest_edge=727), max_image_size=dict(longest_edge=182), return_row_col_info=True),
                       planes_of_tensor, idefics3(169), preproc_image_size=727, **{"projector.scale_factor": 1}),
    "qwen2_vl": config("qwen2vl_merger", 560, 14, CLIP, *qwen(14, 3136, 1003520, CLIP),
                       image_min_pixels=3136, image_max_pixels=1003520),
    "qwen2_5_vl": config("qwen2.5vl_merger", 560, 14, CLIP, *qwen(14, 3136, 4096 * 784, CLIP)),
    "qwen3_vl": config("qwen3vl_merger", 768, 16, HALF, *qwen(16, 65536, 4096 * 1024, HALF), spatial_merge_size=2),
    "pixtral": config("pixtral", 1024, 16, CLIP, "PixtralImageProcessor",
                      dict(size=dict(longest_edge=1024), patch_size=square(16)), planes_of_cropped, pixtral(16, 1)),
    "mistral3": config("pixtral", 770, 14, CLIP, "PixtralImageProcessor",
                       dict(size=dict(longest_edge=770), patch_size=square(28)), planes_of_cropped, pixtral(14, 2),
                       spatial_merge_size=2),
    "lfm2_vl": config("lfm2", 256, 16, HALF, "Lfm2VlImageProcessor",
                      dict(return_row_col_info=True, do_convert_rgb=True), planes_of_lfm2,
                      text_of("Lfm2VlProcessor", image_token="@", image_start_token="<|image_start|>",
                              image_end_token="<|image_end|>", image_thumbnail_token="<|img_thumbnail|>"),
                      **{"projector.scale_factor": 2}),
    "internvl": config("internvl", 224, 14, CLIP, "GotOcr2ImageProcessor",
                       dict(size=square(224), crop_to_patches=True, min_patches=1, max_patches=12), planes_of_tensor,
                       text_of("InternVLProcessor", start_image_token="<img>", end_image_token="</img>",
                               image_token="@", image_seq_length=64), **{"projector.scale_factor": 2}),
    "llama4": config("llama4", 336, 14, HALF, "Llama4ImageProcessor", dict(size=square(336), max_patches=16),
                     planes_of_tensor, llama4, **{"projector.scale_factor": 2}),
}


def levels_of(planes, processor):
    """Returns the grey levels of normalised planes. The processor gives the float of each level."""
    ramp = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(1, 3, 16, 16).contiguous()
    scaled = processor.rescale_and_normalize(ramp, processor.do_rescale, processor.rescale_factor, processor.do_normalize,
                                             tuple(processor.image_mean), tuple(processor.image_std))
    scaled = scaled.float().reshape(3, 256).numpy()
    out = []
    for plane in planes:
        levels = np.stack([np.searchsorted(scaled[c], plane[c]) for c in range(3)])
        assert all(np.array_equal(scaled[c][levels[c]], plane[c]) for c in range(3))
        out.append(levels.astype(np.uint8))
    return out


def pieces_of(text):
    """Returns the texts and the numbers of image tokens, from left to right."""
    return [len(part) if part[0] == "@" else part for part in re.findall(r"@+|[^@]+", text)]


def record(conf, pictures):
    processor = getattr(transformers, conf["cls"])(**conf["options"])
    out = []
    for name, image in pictures:
        try:
            batch = processor(images=[image], return_tensors="pt")
            planes = [plane.float().numpy() for plane in conf["planes"](batch, processor)]
        except Exception as error:  # The processor refuses the picture.
            out.append(dict(picture=name, error=f"{type(error).__name__}: {error}"[:120]))
            continue
        levels = np.concatenate([level.reshape(-1) for level in levels_of(planes, processor)])
        out.append(dict(
            picture=name,
            tiles=[[plane.shape[2], plane.shape[1]] for plane in planes],
            pieces=pieces_of(conf["text"](batch, processor)),
            levels=zlib.crc32(levels.tobytes()),
            floats=zlib.crc32(np.concatenate([plane.reshape(-1) for plane in planes]).astype("<f4").tobytes()),
            samples=samples(levels),
        ))
    keys = {f"clip.vision.{key}": value for key, value in conf["keys"].items()}
    return dict(projector=conf["projector"], mean=conf["colors"][0], std=conf["colors"][1], keys=keys, pictures=out)


# From, to.
RESIZES = [
    ((64, 48), (64, 48)), ((64, 48), (31, 48)), ((64, 48), (64, 97)), ((150, 100), (140, 112)), ((2, 2), (9, 5)),
    ((3, 2), (40, 50)), ((640, 480), (224, 224)), ((480, 640), (896, 896)), ((1000, 7), (100, 70)), ((33, 900), (300, 3)),
    ((500, 333), (3, 1)), ((223, 225), (222, 226)),
]
FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}


def record_resizes():
    out = []
    for (width, height), size in RESIZES:
        image = drawn(width, height, 255)
        tensor = torch.from_numpy(image).permute(2, 0, 1).contiguous()
        for name, pillow in FILTERS.items():
            by_torch = torchvision_functional.resize(
                tensor, [size[1], size[0]], interpolation=torchvision_functional.InterpolationMode(name), antialias=True)
            results = {
                "pillow": np.asarray(Image.fromarray(image).resize(size, pillow)),
                "torch": by_torch.permute(1, 2, 0).contiguous().numpy(),
            }
            for arithmetic, result in results.items():
                out.append(dict(source=[width, height], size=list(size), filter=name, arithmetic=arithmetic,
                                hash=zlib.crc32(result.tobytes()), samples=samples(result)))
    return out


def write(name, value):
    lines = json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace('{"picture"', '\n{"picture"').replace('{"source"', '\n{"source"')
    (FOLDER / name).write_text(lines + "\n")


def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    pictures = [(f"{w}x{h}+{a}", Image.fromarray(drawn(w, h, a))) for w, h, a in DRAWN]
    pictures += [(name, opened(name)) for name in write_files()]
    write("resize.json", record_resizes())
    for name, conf in CONFIGS.items():
        write(f"{name}.json", record(conf, pictures))
        print(name, flush=True)


if __name__ == "__main__":
    main()
