// The ed25519 key by which a registry knows its user, in the file that Ollama's programs use, too:
// ~/.ollama/id_ed25519 in OpenSSH's form (PROTOCOL.key of OpenSSH), without a passphrase.
// Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace billow::registry {

class IdentityKey {
 public:
  // A new one.
  static IdentityKey make();
  // The key of a file's text. Throws Error (kInvalidInput) that begins with `origin` for a key of
  // another kind, one with a passphrase, and text that is no key.
  static IdentityKey parse(std::string_view text, const std::string& origin);
  // The key in a file. Where there is none, a new key is written to it, and its public half to
  // `path`.pub; the folder is made, too. Programs that begin at the same time get the same key.
  // Throws Error that names the file.
  static IdentityKey load_or_make(const std::string& path);

  // The private key, as it stands in a file; for its user's eyes alone.
  std::string to_text() const;
  // The public key's bytes in base64: the middle of its line in authorized_keys.
  std::string public_text() const;
  // "ssh-ed25519 <public_text>", as accounts of registries take it.
  std::string public_line() const;

  // The 64 bytes of the signature (RFC 8032) in base64.
  std::string sign(std::string_view message) const;

 private:
  using Bytes32 = std::array<uint8_t, 32>;
  explicit IdentityKey(const Bytes32& seed);

  Bytes32 seed_;
  Bytes32 public_;
};

}  // namespace billow::registry
