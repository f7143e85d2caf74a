#!/usr/bin/env bash
# Records llama.cpp's logits for the generated models in tests/reference/golden_logits.inc.
#   record_golden.sh ROOT BIN
# ROOT and BIN are as for check_reference.sh. Run check_reference.sh first, which builds llama_logits.
set -euo pipefail
root=${1:?usage: record_golden.sh ROOT BIN}
bin=${2:?usage: record_golden.sh ROOT BIN}
here=$(cd "$(dirname "$0")" && pwd)
out=$here/../reference/golden_logits.inc
mkdir -p "$root/m/tiny"
python3 - > "$root/m/golden.i32" <<'PYTHON'
import struct
import sys

sys.stdout.buffer.write(struct.pack("<80i", *(i * i * 7 % 293 for i in range(80))))
PYTHON
"$bin/make_tiny_models" "$root/m/tiny" | while read -r model; do
  name=$(basename "$model" .gguf)
  chroot "$root" /m/llama_logits "/m/tiny/$name.gguf" /m/golden.i32 80 \
    /m/tokens.i32 /m/logits.f32 f32
  python3 - "$root/m/logits.f32" "$name" <<'PYTHON'
import struct
import sys

data = open(sys.argv[1], "rb").read()
row = struct.unpack(f"<{len(data) // 320}f", data[-len(data) // 80:])
values = [f"{row[i]:.6f}f" for i in range(0, 257, 32)]
print(f'    {{"{sys.argv[2]}",')
print(f'     {{{", ".join(values[:5])},\n      {", ".join(values[5:])}}}}},')
PYTHON
done > "$out"
