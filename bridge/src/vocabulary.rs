//! The tokens of a model: a trie of their bytes, and its tokenizer. The tokenizer splits text that
//! a grammar determines completely.

use std::sync::Arc;

use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{
    InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv,
};
use llguidance::ParserFactory;

use crate::session::{Failure, Status};

/// Returns the tokens of a text, or an empty list if it cannot be split.
pub type Encode = Box<dyn Fn(&[u8]) -> Vec<TokenId> + Send + Sync>;

/// The name for the end of the text in grammars. They cannot name other control tokens.
const END_NAME: &str = "<|end|>";

/// Reports tokens that must come next.
pub fn capabilities() -> InferenceCapabilities {
    InferenceCapabilities {
        ff_tokens: true,
        ..Default::default()
    }
}

struct Environment {
    trie: TokTrie,
    encode: Option<Encode>,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    /// Returns the model's own tokens if they represent exactly this text, else the longest tokens.
    fn tokenize_bytes(&self, text: &[u8]) -> Vec<TokenId> {
        if let Some(encode) = &self.encode {
            let tokens = encode(text);
            let n_tokens = self.trie.vocab_size();
            if tokens.iter().all(|t| (*t as usize) < n_tokens)
                && self.trie.decode_raw(&tokens) == text
            {
                return tokens;
            }
        }
        self.trie.greedy_tokenize(text)
    }
}

pub struct Vocabulary {
    factory: ParserFactory,
    /// Tokens that no grammar may allow.
    control: SimpleVob,
}

impl Vocabulary {
    /// Token i has words[i]. A token without bytes is a control token.
    pub fn new(
        words: Vec<Vec<u8>>,
        ends: &[TokenId],
        encode: Option<Encode>,
    ) -> Result<Vocabulary, Failure> {
        Vocabulary::with_slices(words, ends, encode, &SlicedBiasComputer::general_slices())
    }

    /// Slices are frequent sets of tokens, as regular expressions. Masks can use a slice as a
    /// whole.
    fn with_slices(
        mut words: Vec<Vec<u8>>,
        ends: &[TokenId],
        encode: Option<Encode>,
        slices: &[String],
    ) -> Result<Vocabulary, Failure> {
        let failed = |e: anyhow::Error| Failure::new(Status::Failed, e.to_string());
        let n_tokens = u32::try_from(words.len())
            .map_err(|_| Failure::new(Status::TooLarge, "the vocabulary is too large"))?;
        if ends.is_empty() || ends.iter().any(|end| *end >= n_tokens) {
            let message = "the vocabulary has no such end token";
            return Err(Failure::new(Status::Invalid, message));
        }
        let mut control = SimpleVob::alloc(words.len());
        for (token, word) in (0..n_tokens).zip(&words) {
            if word.is_empty() && !ends.contains(&token) {
                control.allow_token(token);
            }
        }
        // llguidance requires at least one named token.
        let name = [&[TokTrie::SPECIAL_TOKEN_MARKER], END_NAME.as_bytes()].concat();
        words[ends[0] as usize] = name;
        let info = TokRxInfo::new(n_tokens, ends[0]);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(ends);
        let environment: TokEnv = Arc::new(Environment { trie, encode });
        let mut factory =
            ParserFactory::new(&environment, capabilities(), slices).map_err(failed)?;
        factory.quiet();
        Ok(Vocabulary { factory, control })
    }

    /// Returns a vocabulary with one token per byte, for checks without a model.
    pub fn of_bytes() -> Result<Vocabulary, Failure> {
        let mut words: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        words.push(Vec::new());
        Vocabulary::with_slices(words, &[256], None, &[])
    }

    pub fn factory(&self) -> &ParserFactory {
        &self.factory
    }

    pub fn control(&self) -> &SimpleVob {
        &self.control
    }
}
