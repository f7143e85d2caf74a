//! llama.cpp's grammar notation (GBNF), translated into Lark.
//!
//! GBNF describes texts character by character. Lark has terminals, which a lexer cuts off as long as
//! they go, so a translation that makes the wrong parts terminals describes other texts. A regular
//! grammar becomes one terminal, which is exact. Of any other, each part without recursion becomes a
//! terminal at first; then those that may swallow the beginning of what follows them are opened, until
//! none is left (terminals.rs). What remains are the texts of the GBNF, with few and long terminals.

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
