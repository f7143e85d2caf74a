//! The C boundary for grammars. Safety of all functions: billow_bridge.h states the requirements on
//! their pointers.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::grammar::{self, Kind};
use crate::matcher::Matcher;
use crate::session::{self, guarded, Failure, Status, Subject};
use crate::vocabulary::{Encode, Vocabulary};
use crate::{bytes_of, limits_of, BillowLimits, BillowText, OK};

/// The limits of prepared().
const PREPARING: session::Limits = session::Limits {
    subject: Subject::Grammar,
    n_instructions: 0,
    memory_bytes: usize::MAX,
    time: Duration::from_secs(60),
};

#[repr(C)]
pub struct BillowGrammar {
    kind: c_int,
    text: *const u8,
    n_bytes: usize,
}

type EncodeFn = unsafe extern "C" fn(*const c_void, *const c_char, usize, *mut u32, usize) -> usize;

#[repr(C)]
pub struct BillowTokens {
    n_tokens: usize,
    bytes: *const u8,
    n_bytes: *const u32,
    ends: *const u32,
    n_ends: usize,
    encode: Option<EncodeFn>,
    context: *const c_void,
}

pub struct BillowVocabulary(Arc<Vocabulary>);
pub struct BillowMatcher(Matcher);

/// The caller's function and its context. Any thread may use both.
struct Encoder {
    call: EncodeFn,
    context: *const c_void,
}
// SAFETY: billow_bridge.h requires it.
unsafe impl Send for Encoder {}
unsafe impl Sync for Encoder {}

impl Encoder {
    fn encode(&self, text: &[u8]) -> Vec<u32> {
        let mut tokens = vec![0u32; text.len() + 8];
        loop {
            // SAFETY: the function fills in at most as many tokens as the buffer holds.
            let n = unsafe {
                (self.call)(
                    self.context,
                    text.as_ptr().cast(),
                    text.len(),
                    tokens.as_mut_ptr(),
                    tokens.len(),
                )
            };
            let fits = n <= tokens.len();
            tokens.resize(n, 0);
            if fits {
                return tokens;
            }
        }
    }
}

/// Reports an outcome without a value.
unsafe fn report(outcome: Result<(), Failure>, message: *mut BillowText) -> c_int {
    match outcome {
        Ok(()) => {
            (*message).set(String::new());
            OK
        }
        Err(failure) => {
            (*message).set(failure.message);
            failure.status as c_int
        }
    }
}

/// Reports an outcome and stores its value in `result`.
unsafe fn hand_over<T>(
    outcome: Result<T, Failure>,
    result: *mut *mut T,
    message: *mut BillowText,
) -> c_int {
    *result = std::ptr::null_mut();
    report(
        outcome.map(|value| *result = Box::into_raw(Box::new(value))),
        message,
    )
}

/// Returns the kind and a copy of the text.
unsafe fn grammar_of(grammar: *const BillowGrammar) -> Result<(Kind, Vec<u8>), Failure> {
    let grammar = &*grammar;
    let kind = Kind::of(grammar.kind)
        .ok_or_else(|| Failure::new(Status::Unsupported, "no such kind of grammar"))?;
    Ok((kind, bytes_of(grammar.text, grammar.n_bytes).to_vec()))
}

/// Returns the vocabulary for checks. Created outside of any limited session, together with
/// everything that llguidance initialises once: a session may leave at any allocation.
fn prepared() -> Result<Arc<Vocabulary>, Failure> {
    static BYTES: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    if let Some(bytes) = BYTES.get() {
        return Ok(Arc::clone(bytes));
    }
    let bytes = Arc::new(Vocabulary::of_bytes()?);
    let samples: [(Kind, &'static str); 3] = [
        (Kind::JsonObject, ""),
        (Kind::JsonSchema, r#"{"type":"string","pattern":"^a+$"}"#),
        (Kind::Gbnf, "root ::= \"a\" root | [b-c]"),
    ];
    for (kind, text) in samples {
        let bytes = Arc::clone(&bytes);
        session::run(PREPARING, move |_| {
            grammar::compile(&bytes, kind, text.as_bytes())
        })?;
    }
    Ok(Arc::clone(BYTES.get_or_init(|| bytes)))
}

unsafe fn tokens_of<'a>(tokens: *const u32, n_tokens: usize) -> &'a [u32] {
    if n_tokens == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(tokens, n_tokens)
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_grammar_check(
    grammar: *const BillowGrammar,
    limits: *const BillowLimits,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || {
        let bytes = prepared()?;
        let (kind, text) = grammar_of(grammar)?;
        session::run(limits_of(Subject::Grammar, limits), move |_| {
            grammar::compile(&bytes, kind, &text).map(|_| ())
        })
    });
    report(outcome, message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_vocabulary_create(
    tokens: *const BillowTokens,
    result: *mut *mut BillowVocabulary,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || {
        prepared()?;
        let tokens = &*tokens;
        let lengths = tokens_of(tokens.n_bytes, tokens.n_tokens);
        let n_bytes = lengths.iter().map(|n| *n as usize).sum();
        let mut rest = bytes_of(tokens.bytes, n_bytes);
        let mut words = Vec::with_capacity(lengths.len());
        for n in lengths {
            let (word, others) = rest.split_at(*n as usize);
            words.push(word.to_vec());
            rest = others;
        }
        let encode = tokens.encode.map(|call| {
            let encoder = Encoder {
                call,
                context: tokens.context,
            };
            Box::new(move |text: &[u8]| encoder.encode(text)) as Encode
        });
        let vocabulary = Vocabulary::new(words, tokens_of(tokens.ends, tokens.n_ends), encode)?;
        Ok(BillowVocabulary(Arc::new(vocabulary)))
    });
    hand_over(outcome, result, message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_vocabulary_free(vocabulary: *mut BillowVocabulary) {
    if !vocabulary.is_null() {
        drop(Box::from_raw(vocabulary));
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_create(
    vocabulary: *const BillowVocabulary,
    grammar: *const BillowGrammar,
    limits: *const BillowLimits,
    result: *mut *mut BillowMatcher,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || {
        let (kind, text) = grammar_of(grammar)?;
        let vocabulary = Arc::clone(&(*vocabulary).0);
        session::run(limits_of(Subject::Grammar, limits), move |_| {
            Matcher::new(Arc::clone(&vocabulary), kind, &text).map(BillowMatcher)
        })
    });
    hand_over(outcome, result, message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_clone(
    matcher: *const BillowMatcher,
    result: *mut *mut BillowMatcher,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || Ok(BillowMatcher((*matcher).0.clone())));
    hand_over(outcome, result, message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_free(matcher: *mut BillowMatcher) {
    if !matcher.is_null() {
        let _ = guarded(Subject::Grammar, || {
            drop(Box::from_raw(matcher));
            Ok(())
        });
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_mask(
    matcher: *mut BillowMatcher,
    words: *mut u32,
    n_words: usize,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || {
        (*matcher)
            .0
            .compute_mask(std::slice::from_raw_parts_mut(words, n_words))
    });
    report(outcome, message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_consume(
    matcher: *mut BillowMatcher,
    tokens: *const u32,
    n_tokens: usize,
    message: *mut BillowText,
) -> c_int {
    let tokens = tokens_of(tokens, n_tokens);
    let outcome = guarded(Subject::Grammar, || (*matcher).0.consume(tokens));
    report(outcome, message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_validate(
    matcher: *mut BillowMatcher,
    tokens: *const u32,
    n_tokens: usize,
    n_allowed: *mut usize,
    message: *mut BillowText,
) -> c_int {
    let tokens = tokens_of(tokens, n_tokens);
    let outcome = guarded(Subject::Grammar, || (*matcher).0.n_allowed(tokens));
    report(outcome.map(|n| *n_allowed = n), message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_forced(
    matcher: *mut BillowMatcher,
    tokens: *mut u32,
    capacity: usize,
    n_tokens: *mut usize,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || (*matcher).0.forced()).map(|forced| {
        *n_tokens = forced.len();
        for (i, token) in forced.into_iter().take(capacity).enumerate() {
            *tokens.add(i) = token;
        }
    });
    report(outcome, message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_accepts(
    matcher: *mut BillowMatcher,
    accepts: *mut c_int,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || (*matcher).0.accepts());
    report(outcome.map(|does| *accepts = c_int::from(does)), message)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_stopped(matcher: *const BillowMatcher) -> c_int {
    c_int::from((*matcher).0.is_stopped())
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn billow_matcher_reset(
    matcher: *mut BillowMatcher,
    message: *mut BillowText,
) -> c_int {
    let outcome = guarded(Subject::Grammar, || (*matcher).0.reset());
    report(outcome, message)
}
