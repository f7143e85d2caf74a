// The ed25519 key that identifies a user to registries. Its file is the one that Ollama's programs
// use: ~/.ollama/id_ed25519 in OpenSSH format (PROTOCOL.key of OpenSSH), without a passphrase.
// Immutable; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace billow::registry {

class IdentityKey {
 public:
  // Returns a new random key.
  static IdentityKey make();
  // Parses the text of a key file. Throws Error (kInvalidInput) for another kind of key, a key with
  // a passphrase, and other text. The error text begins with `origin`.
  static IdentityKey parse(std::string_view text, const std::string& origin);
  // Returns the key in a file. If the file does not exist, creates its folder, a new key in `path`,
  // and the public key in `path`.pub. Programs that start at the same time get the same key. Throws
  // Error that names the file.
  static IdentityKey load_or_make(const std::string& path);

  // Returns the text of the private key's file. Only the user may read that file.
  std::string to_text() const;
  // Returns the public key's bytes in base64: the middle field of a line in authorized_keys.
  std::string public_text() const;
  // Returns "ssh-ed25519 <public_text>", the form that registry accounts accept.
  std::string public_line() const;

  // Returns the 64 bytes of the signature (RFC 8032) in base64.
  std::string sign(std::string_view message) const;

 private:
  using Bytes32 = std::array<uint8_t, 32>;
  explicit IdentityKey(const Bytes32& seed);

  Bytes32 seed_;
  Bytes32 public_;
};

}  // namespace billow::registry
