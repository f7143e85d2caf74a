"""Pictures, and a projector file, from which the number of rows of a picture follows."""

import base64
import struct
import zlib


def gguf_text(text):
    return struct.pack("<Q", len(text)) + text.encode()


def projector(path):
    """Writes a projector file. A picture has 16 rows: 64 x 64 pixels in squares of 16."""
    texts = {"general.architecture": "clip", "general.type": "mmproj", "clip.projector_type": "mlp"}
    numbers = {"clip.vision.image_size": 64, "clip.vision.patch_size": 16, "clip.vision.embedding_length": 8}
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(texts) + len(numbers) + 1)
    for key, value in texts.items():
        out += gguf_text(key) + struct.pack("<I", 8) + gguf_text(value)
    for key, value in numbers.items():
        out += gguf_text(key) + struct.pack("<II", 4, value)
    path.write_bytes(out + gguf_text("clip.has_vision_encoder") + struct.pack("<IB", 7, 1))
    return path


def png_of_rows(width, height, rows):
    """Returns a PNG file. rows: for each row a 0 and 3 bytes for each pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def png(width, height, shade=0):
    return png_of_rows(width, height, (b"\0" + bytes([shade]) * (3 * width)) * height)


def size_of(data):
    return struct.unpack_from(">II", data, 16)


def text64(data):
    return base64.b64encode(data).decode()


def data_url(data, kind="png"):
    return f"data:image/{kind};base64,{text64(data)}"
