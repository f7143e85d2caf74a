//! The state of a text in its grammar. llguidance limits the cost of each step. If a step needs
//! more, this step and all later steps fail.

use std::sync::Arc;

use llguidance::toktrie::TokenId;
use llguidance::Matcher as Engine;

use crate::grammar::{self, failure_of, Kind};
use crate::session::{Failure, Status};
use crate::vocabulary::Vocabulary;

pub struct Matcher {
    vocabulary: Arc<Vocabulary>,
    engine: Engine,
}

impl Clone for Matcher {
    /// The clone has separate caches, so both matchers may be used in parallel.
    fn clone(&self) -> Matcher {
        Matcher {
            vocabulary: Arc::clone(&self.vocabulary),
            engine: self.engine.deep_clone(),
        }
    }
}

fn described(error: anyhow::Error) -> Failure {
    failure_of(&error.to_string())
}

impl Matcher {
    pub fn new(vocabulary: Arc<Vocabulary>, kind: Kind, text: &[u8]) -> Result<Matcher, Failure> {
        let engine = grammar::compile(&vocabulary, kind, text)?;
        Ok(Matcher { vocabulary, engine })
    }

    /// Sets the bits of the tokens that may come next, 32 per word. Clears all other bits.
    pub fn compute_mask(&mut self, words: &mut [u32]) -> Result<(), Failure> {
        let mut mask = self.engine.compute_mask_or_eos().map_err(described)?;
        mask.sub(self.vocabulary.control());
        if mask.is_zero() {
            let message = "the grammar continues only with a control token, which is never allowed";
            return Err(Failure::new(Status::Invalid, message));
        }
        let source = mask.as_slice();
        for (i, word) in words.iter_mut().enumerate() {
            *word = source.get(i).copied().unwrap_or(0);
        }
        Ok(())
    }

    pub fn consume(&mut self, tokens: &[TokenId]) -> Result<(), Failure> {
        self.engine.consume_tokens(tokens).map_err(described)
    }

    /// Returns the tokens that must come next, up to the first control token.
    pub fn forced(&mut self) -> Result<Vec<TokenId>, Failure> {
        if self.engine.is_stopped() && !self.engine.is_error() {
            return Ok(Vec::new());
        }
        let mut tokens = self.engine.compute_ff_tokens();
        if let Some(error) = self.engine.get_error() {
            return Err(failure_of(&error));
        }
        let control = self.vocabulary.control();
        let n = tokens.iter().position(|token| control.is_allowed(*token));
        tokens.truncate(n.unwrap_or(tokens.len()));
        Ok(tokens)
    }

    pub fn n_allowed(&mut self, tokens: &[TokenId]) -> Result<usize, Failure> {
        self.engine.validate_tokens(tokens).map_err(described)
    }

    pub fn accepts(&mut self) -> Result<bool, Failure> {
        if self.engine.is_stopped() && !self.engine.is_error() {
            return Ok(true);
        }
        self.engine.is_accepting().map_err(described)
    }

    pub fn is_stopped(&self) -> bool {
        self.engine.is_stopped()
    }

    pub fn reset(&mut self) -> Result<(), Failure> {
        self.engine.reset().map_err(described)
    }
}
