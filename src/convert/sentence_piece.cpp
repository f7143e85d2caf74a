#include "convert/sentence_piece.h"

#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "convert/protobuf.h"

namespace billow::convert {
namespace {

using tokenizer::TokenType;

constexpr size_t kMaxPieces = size_t{1} << 24;

[[noreturn]] void fail(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kInvalidInput, origin + ": " + what);
}

// Maps the numbers of ModelProto.SentencePiece.Type.
TokenType type_of(uint64_t number, const std::string& origin) {
  constexpr TokenType kTypes[] = {TokenType::kNormal,      TokenType::kUnknown, TokenType::kControl,
                                  TokenType::kUserDefined, TokenType::kUnused,  TokenType::kByte};
  if (number < 1 || number > std::size(kTypes)) fail(origin, "a piece of an unknown type");
  return kTypes[number - 1];
}

Piece parse_piece(std::string_view message, const std::string& origin) {
  Piece piece;
  piece.type = TokenType::kNormal;
  for (ProtobufReader reader(message, origin); reader.next();) {
    switch (reader.field()) {
      case 1:
        piece.text = reader.bytes();
        break;
      case 2:
        piece.score = reader.real();
        break;
      case 3:
        piece.type = type_of(reader.number(), origin);
        break;
      default:
        break;
    }
  }
  if (!utf8::is_valid(piece.text)) fail(origin, "a piece that is not UTF-8");
  if (!std::isfinite(piece.score)) fail(origin, "a piece whose score is not a number");
  return piece;
}

SentencePieceModel::Kind parse_trainer(std::string_view message, const std::string& origin) {
  auto kind = SentencePieceModel::Kind::kUnigram;
  for (ProtobufReader reader(message, origin); reader.next();) {
    if (reader.field() != 3) continue;
    if (reader.number() < 1 || reader.number() > 4) fail(origin, "a model of an unknown type");
    kind = static_cast<SentencePieceModel::Kind>(reader.number());
  }
  return kind;
}

void parse_normalizer(std::string_view message, const std::string& origin,
                      SentencePieceModel& model) {
  for (ProtobufReader reader(message, origin); reader.next();) {
    if (reader.field() == 2) model.charsmap = reader.bytes();
    if (reader.field() == 3) model.adds_space_prefix = reader.number() != 0;
    if (reader.field() == 4) model.removes_extra_spaces = reader.number() != 0;
  }
}

}  // namespace

bool is_sentence_piece(std::string_view bytes) noexcept {
  return bytes.starts_with('\n');  // field 1, bytes: the first piece
}

SentencePieceModel parse_sentence_piece(std::string_view bytes, const std::string& origin) {
  SentencePieceModel model;
  for (ProtobufReader reader(bytes, origin); reader.next();) {
    if (reader.field() == 1) {
      if (model.pieces.size() == kMaxPieces) fail(origin, "more than 2^24 pieces");
      model.pieces.push_back(parse_piece(reader.bytes(), origin));
    }
    if (reader.field() == 2) model.kind = parse_trainer(reader.bytes(), origin);
    if (reader.field() == 3) parse_normalizer(reader.bytes(), origin, model);
  }
  if (model.pieces.empty()) fail(origin, "has no pieces");
  return model;
}

}  // namespace billow::convert
