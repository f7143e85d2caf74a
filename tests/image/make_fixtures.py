#!/usr/bin/env python3
"""Writes the pictures that src/image/picture_test.cpp decodes, with the pixels that Pillow decodes.

  pip install pillow numpy; tests/image/make_fixtures.py

Each picture fixtures/NAME.EXT has its expected pixels in fixtures/NAME.EXT.ppm. They are Pillow's pixels, rotated by the
EXIF orientation. Transparent pixels are on white.
"""
import io
import pathlib
import struct
import zlib

import numpy
from PIL import Image, ImageOps

FOLDER = pathlib.Path(__file__).parent / "fixtures"
WIDTH, HEIGHT = 19, 13


def base():
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    rgb = numpy.stack([x * 255 // (WIDTH - 1), y * 255 // (HEIGHT - 1), (x * 7 + y * 31) % 256], axis=2)
    return Image.fromarray(rgb.astype(numpy.uint8), "RGB")


def with_alpha():
    image = base().convert("RGBA")
    alpha = numpy.fromfunction(lambda y, x: (x * 40 + y * 9) % 256, (HEIGHT, WIDTH)).astype(numpy.uint8)
    image.putalpha(Image.fromarray(alpha))
    return image


def on_white(image):
    rgba = numpy.asarray(image.convert("RGBA")).astype(numpy.uint32)
    alpha = rgba[..., 3:]
    rgb = (rgba[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255
    return Image.fromarray(rgb.astype(numpy.uint8), "RGB")


def write(name, data, expected=None):
    (FOLDER / name).write_bytes(data)
    if expected is None:
        image = Image.open(io.BytesIO(data))
        image.seek(0)
        image = ImageOps.exif_transpose(image)
        is_transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
        expected = on_white(image) if is_transparent else image.convert("RGB")
    out = io.BytesIO()
    expected.save(out, "PPM")
    (FOLDER / (name + ".ppm")).write_bytes(out.getvalue())


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def png(color_type, depth, rows, interlace=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, color_type, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def bmp(bits, compression, rows, colors=b"", masks=b"", height=HEIGHT):
    offset = 14 + 40 + len(masks) + len(colors)
    info = struct.pack("<IiiHHIIiiII", 40, WIDTH, height, 1, bits, compression, len(rows), 0, 0, len(colors) // 4, 0)
    return b"BM" + struct.pack("<IHHI", offset + len(rows), 0, 0, offset) + info + masks + colors + rows


def pngs():
    write("rgb.png", saved(base(), "PNG"))
    write("rgba.png", saved(with_alpha(), "PNG"))
    write("gray.png", saved(base().convert("L"), "PNG"))
    write("gray_alpha.png", saved(with_alpha().convert("LA"), "PNG"))
    write("one_bit.png", saved(base().convert("1"), "PNG"))
    write("palette.png", saved(base().quantize(37), "PNG"))
    write("palette_clear.png", saved(base().quantize(37), "PNG", transparency=3))
    write("turned.png", saved(base(), "PNG", exif=exif(6)))
    pixels = numpy.asarray(base())
    wide = (pixels.astype(int) * 256 + 77).astype(">u2")
    write("sixteen_bits.png", png(2, 16, b"".join(b"\0" + row.tobytes() for row in wide)), base())
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b"".join(b"\0" + pixels[y, x0::dx].tobytes() for y0, x0, dy, dx in passes for y in range(y0, HEIGHT, dy))
    write("interlaced.png", png(2, 8, rows, interlace=1), base())


def jpegs():
    write("plain.jpg", saved(base(), "JPEG", quality=90))
    write("progressive.jpg", saved(base(), "JPEG", quality=80, progressive=True))
    write("gray.jpg", saved(base().convert("L"), "JPEG"))
    write("cmyk.jpg", saved(base().convert("CMYK"), "JPEG", quality=95))
    for orientation in range(1, 9):
        write(f"turned{orientation}.jpg", saved(base(), "JPEG", quality=95, exif=exif(orientation)))


def webps():
    write("lossy.webp", saved(base(), "WEBP", quality=80))
    write("lossless.webp", saved(base(), "WEBP", lossless=True))
    write("clear.webp", saved(with_alpha(), "WEBP", lossless=True, exact=True))
    write("turned.webp", saved(base(), "WEBP", lossless=True, exif=exif(8)))
    others = [ImageOps.invert(base()), ImageOps.mirror(base())]
    write("animated.webp", saved(base(), "WEBP", save_all=True, append_images=others, lossless=True))


def gifs():
    write("plain.gif", saved(base(), "GIF"))
    write("clear.gif", saved(base().quantize(16), "GIF", transparency=2))
    write("interlaced.gif", saved(base(), "GIF", interlace=1))
    write("animated.gif", saved(base(), "GIF", save_all=True, append_images=[ImageOps.invert(base())]))


def bmps():
    write("rgb.bmp", saved(base(), "BMP"))
    write("gray.bmp", saved(base().convert("L"), "BMP"))
    write("one_bit.bmp", saved(base().convert("1"), "BMP"))
    write("palette.bmp", saved(base().quantize(37), "BMP"))
    write("rgba.bmp", saved(with_alpha(), "BMP"))
    pixels = numpy.asarray(base()).astype(numpy.uint32)
    # 5, 6 and 5 bits per channel; rows from top to bottom
    value = (pixels[..., 0] >> 3) << 11 | (pixels[..., 1] >> 2) << 5 | pixels[..., 2] >> 3
    rows = b"".join(row.astype("<u2").tobytes() + b"\0\0" * (WIDTH % 2) for row in value)
    five = numpy.stack([(pixels[..., 0] >> 3) * 255 / 31, (pixels[..., 1] >> 2) * 255 / 63, (pixels[..., 2] >> 3) * 255 / 31], axis=2)
    write("fields.bmp", bmp(16, 3, rows, masks=struct.pack("<III", 0xf800, 0x07e0, 0x001f), height=-HEIGHT),
          Image.fromarray(numpy.rint(five).astype(numpy.uint8), "RGB"))
    # runs of 8-bit pixels: each row is one run and three literal pixels
    colors = [(i * 3 % 256, i * 5 % 256, i * 7 % 256) for i in range(256)]
    table = b"".join(bytes((b, g, r, 0)) for r, g, b in colors)
    rows, grid = b"", numpy.zeros((HEIGHT, WIDTH), int)
    for y in range(HEIGHT):
        rows += bytes((WIDTH - 3, y * 11)) + b"\0\3" + bytes((y, y + 40, y + 80)) + b"\0" + b"\0\0"
        grid[HEIGHT - 1 - y] = [y * 11] * (WIDTH - 3) + [y, y + 40, y + 80]
    write("runs.bmp", bmp(8, 1, rows + b"\0\1", table),
          Image.fromarray(numpy.array(colors, numpy.uint8)[grid], "RGB"))


FOLDER.mkdir(exist_ok=True)
for make in (pngs, jpegs, webps, gifs, bmps):
    make()
