//! llama.cpp's grammar notation (GBNF), translated into Lark.
//!
//! GBNF describes texts character by character. Lark has terminals, and its lexer always takes the
//! longest match. If a translation makes the wrong parts terminals, it describes other texts. A
//! regular grammar becomes one terminal, which is exact. In other grammars, each part without
//! recursion first becomes a terminal. Then terminals that may swallow the beginning of the
//! following text are opened, until there are none (terminals.rs). The result has the texts of the
//! GBNF grammar, with few and long terminals.

mod automaton;
mod char_set;
mod lark;
mod parser;
mod rules;
mod terminals;

use crate::session::{Failure, Status};

pub fn to_lark(text: &str) -> Result<String, Failure> {
    let invalid = |message| Failure::new(Status::Invalid, message);
    let grammar = parser::parse(text).map_err(invalid)?;
    let grammar = rules::simplified(grammar).map_err(invalid)?;
    let cut = terminals::cut(&grammar).map_err(|m| Failure::new(Status::TooLarge, m))?;
    Ok(lark::written(&grammar, &cut))
}
