#!/usr/bin/env bash
# Compares all logits of the reference forward pass with llama.cpp's, and prints a markdown table.
#   check_reference.sh ROOT BIN [N_TOKENS [TEXT]] [-- MODEL...]
# ROOT is the chroot with llama.cpp and its headers. BIN is the folder with make_tiny_models and
# compare_reference. Models are copied to ROOT/m. Without MODEL, only generated models are compared.
set -euo pipefail
root=${1:?usage: check_reference.sh ROOT BIN [N_TOKENS [TEXT]] [-- MODEL...]}
bin=${2:?usage: check_reference.sh ROOT BIN [N_TOKENS [TEXT]] [-- MODEL...]}
shift 2
n_tokens=128
text=/usr/share/common-licenses/GPL-3
if [ "${1:---}" != -- ]; then n_tokens=$1; shift; fi
if [ "${1:---}" != -- ]; then text=$1; shift; fi
if [ "${1:-}" = -- ]; then shift; fi

here=$(cd "$(dirname "$0")" && pwd)
libraries=$root/usr/lib/x86_64-linux-gnu
mkdir -p "$root/m/tiny"
# llama.cpp's libraries may need a newer libc than this system has. They find it under ROOT at run time.
cc -O1 -I"$root/usr/include" -o "$root/m/llama_logits" "$here/llama_logits.c" -L"$libraries" \
  -lllama -lggml -lggml-base -Wl,--unresolved-symbols=ignore-in-shared-libs
cp "$text" "$root/m/text"

compare() { # compare FILE-UNDER-M MODE
  chroot "$root" /m/llama_logits "/m/$1" /m/text "$n_tokens" /m/tokens.i32 /m/logits.f32 "$2"
  "$bin/compare_reference" "$root/m/$1" "$root/m/tokens.i32" "$root/m/logits.f32" "$n_tokens" |
    sed "s#^| .*/m/\([^ ]*\)#| \1 ($2)#"
}

cat <<'HEAD'
| model (KV cache) | tokens | mean KL | largest KL | same best | relative error | largest difference |
|---|---|---|---|---|---|---|
HEAD
"$bin/make_tiny_models" "$root/m/tiny" > /dev/null
for model in "$root"/m/tiny/*.gguf; do compare "tiny/${model##*/}" f32; done
for model; do
  [ "$model" -ef "$root/m/${model##*/}" ] || cp -u "$model" "$root/m/"
  compare "${model##*/}" f32
  compare "${model##*/}" default
done
