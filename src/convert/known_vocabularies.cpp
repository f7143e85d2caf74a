#include "convert/known_vocabularies.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/check.h"

namespace billow::convert {
namespace {

struct Known {
  uint64_t sum;
  std::string_view name;
};

// One row per vocabulary, from the list of llama.cpp's converter (conversion/base.py,
// get_vocab_base_pre). If that list has two names for a checksum, this table has the name that
// the converter writes.
constexpr std::array kKnown{
    Known{0xb0a6b1c0bd5998ebu, "a.x-4.0"},
    Known{0x49fc0303c9e0d2c2u, "afmoe"},
    Known{0x96a5f08be6259352u, "bailingmoe"},
    Known{0x9b1be57e70d20d95u, "bailingmoe2"},
    Known{0x8e62295832751ca1u, "bert-bge-large"},
    Known{0x3c30d3ad1d6b6420u, "bloom"},
    Known{0x60824e3c0d9401f8u, "chameleon"},
    Known{0x81d72c7348a9f0ebu, "chatglm-bpe"},
    Known{0xb6e8e1518dc4305bu, "chatglm-bpe"},
    Known{0x7b3e7548e4308f52u, "codeshell"},
    Known{0x52df12b4c8d4176eu, "cohere2moe"},
    Known{0x9c2227e4dd922002u, "command-r"},
    Known{0xa8594e3edff7c29cu, "dbrx"},
    Known{0x347715f544604f91u, "deepseek-coder"},
    Known{0x049ecf7629871e30u, "deepseek-llm"},
    Known{0xb3f499bb4255f8cau, "deepseek-r1-qwen"},
    Known{0x877081d19cf6996eu, "deepseek-v3"},
    Known{0x4e2b24cc4770243du, "exaone"},
    Known{0x6c81ce329e080288u, "exaone-moe"},
    Known{0x2085e1638f6c377au, "exaone4"},
    Known{0x862f827721df9560u, "f2llmv2"},
    Known{0x8aeee3860c56296au, "falcon"},
    Known{0x3eda48b4c4dc7de7u, "falcon-h1"},
    Known{0x48f8e02c0359c0bbu, "falcon-h1"},
    Known{0x60476e1243776c4fu, "falcon-h1"},
    Known{0xa6b57017d60e6edbu, "falcon-h1"},
    Known{0x9d032fcbd5501f4au, "falcon3"},
    Known{0x846deafc5b0fa786u, "gemma4"},
    Known{0xad851be1dba641f2u, "gigachat"},
    Known{0x9ca2dd618e8afaf0u, "glm4"},
    Known{0xa1336059768a55c9u, "glm4"},
    Known{0xcdf5f35325780597u, "glm4"},
    Known{0x0fe1cf6eda062318u, "gpt-2"},
    Known{0x3ce83efda5659b07u, "gpt-2"},
    Known{0xccc2ef013c104be7u, "gpt-4o"},
    Known{0xbc01ce58980e1db4u, "gpt3-finnish"},
    Known{0x53e325976a6e1423u, "granite-docling"},
    Known{0x789696f5946cc0fcu, "granite-embed-multi-311m"},
    Known{0xf241072145675bf8u, "granite-embed-multi-97m"},
    Known{0x66b8d4e19ab16c3bu, "grok-2"},
    Known{0x7e57df22b1fe23a7u, "hunyuan"},
    Known{0xbba3b3366b646dbdu, "hunyuan-dense"},
    Known{0xe6ddf9c6686791c1u, "hy_v4"},
    Known{0xb53802fb28e26d64u, "jais"},
    Known{0xbc5108ee1eb6a3d6u, "jais-2"},
    Known{0xc7699093ba4255a9u, "jina-v1-en"},
    Known{0x7967bfa498ade6b7u, "jina-v2-code"},
    Known{0x27949a2493fc4a9fu, "jina-v2-de"},
    Known{0xb3d1dd861f1d4c5cu, "jina-v2-de"},
    Known{0x0876d13b50744004u, "jina-v2-en"},
    Known{0x171aeeedd6fb548du, "jina-v2-es"},
    Known{0xa023e9fdc5a11f03u, "jina-v5-nano"},
    Known{0xb4b8ca1f9769494fu, "joyai-llm"},
    Known{0xe4d54df1ebc1f2b9u, "kanana2"},
    Known{0x81212dc7cdb7e0c1u, "kimi-k2"},
    Known{0x4a2e2abae11ca2b8u, "kormo"},
    Known{0x972da7b59cec44d1u, "laguna"},
    Known{0x169bf0296a13c4d9u, "lfm2"},
    Known{0x9e454714343b69b9u, "lfm2"},
    Known{0x0ef9807a4087ebefu, "llama-bpe"},
    Known{0xd353350c764d8c3bu, "llama4"},
    Known{0xd4c8f286ea6b520bu, "megrez"},
    Known{0xa1e163ecab2e718au, "mellum"},
    Known{0x9dcf830ee9990cdbu, "mellum2"},
    Known{0xf6791d196f87ce6bu, "midm-2.0"},
    Known{0x1431a23e583c9743u, "minerva-7b"},
    Known{0x36f3066e97b7f399u, "minicpm5"},
    Known{0xf4f37b6c8eb9ea29u, "minimax-m2"},
    Known{0xa0b64b4385f12366u, "modern-bert"},
    Known{0xb6dc8df998e1cfbdu, "olmo"},
    Known{0xfcace8b9cac38ce8u, "phi-2"},
    Known{0x0e9433cbbb161f89u, "pixtral"},
    Known{0xc7ea5862a53e4272u, "poro-chat"},
    Known{0xd4540891389ea895u, "qwen2"},
    Known{0xe636dc30a262dcc0u, "qwen2"},
    Known{0x1444df51289cfa80u, "qwen35"},
    Known{0xd30d75d9059f1aa2u, "qwen35"},
    Known{0x6221ad2852e85ce9u, "refact"},
    Known{0x8b5a93ed70405748u, "roberta-bpe"},
    Known{0x62f6fb0a6fd5098cu, "sarvam-moe"},
    Known{0xd5f1dd6f980fec56u, "seed-coder"},
    Known{0xc136ed14d01c2745u, "smaug-bpe"},
    Known{0x855059429035d75au, "smollm"},
    Known{0x16389f0a1f51ee53u, "solar-open"},
    Known{0x0a766d034107bc73u, "spark2_5"},
    Known{0x32d85c31273f8019u, "stablelm2"},
    Known{0x35d91631860c815fu, "starcoder"},
    Known{0x7dec86086fcc38b6u, "superbpe"},
    Known{0xf728162c1315c26eu, "talkie"},
    Known{0x63b97e4253352e6fu, "tekken"},
    Known{0xd772b220ace2baecu, "tiny_aya"},
    Known{0x1994ffd01900cfb3u, "trillion"},
    Known{0x653660222fb704f6u, "ufakzeka"},
    Known{0x7fc505bd3104ca10u, "viking"},
    Known{0x9d70134b369a70e5u, "youtu"},
};

constexpr std::string_view kProbe =
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶\xE2\x80\x8D"
    "🌫"
    "\xEF\xB8\x8F"
    " (multiple emojis concatenated) ✅ 🦙🦙 3 33 333 3333 33333 333333"
    " 3333333 33333333 3.3 3..3 3...3 កាន់តែពិសេសអាច😁 \?我想在apple工作1314151天～ ------="
    "====== нещо на Български ''''''```````\"\"\"\"......!!!!!!\?\?\?\?\?\? I've be"
    "en 'told he's there, 'RE you sure\? 'M not sure I'll make it, 'D you like some"
    " tea\? We'Ve a'lL";

}  // namespace

std::string_view probe_text() noexcept { return kProbe; }

std::optional<std::string_view> find_known_vocabulary(std::span<const tokenizer::TokenId> ids) {
  std::string text = "[";
  for (const tokenizer::TokenId id : ids) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(id);
  }
  text += "]";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned n_bytes = 0;
  BILLOW_CHECK(
      EVP_Digest(text.data(), text.size(), digest.data(), &n_bytes, EVP_sha256(), nullptr) == 1);
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof sum; ++i) sum = sum << 8 | digest[i];
  const auto* known = std::ranges::find(kKnown, sum, &Known::sum);
  return known == kKnown.end() ? std::nullopt : std::optional(known->name);
}

}  // namespace billow::convert
