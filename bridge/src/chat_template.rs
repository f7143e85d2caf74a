//! A chat template: the engine with the same settings as Jinja2 in the transformers library.

use std::io;
use std::sync::OnceLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind};

use crate::session::{Failure, Limits, Status, Subject};
use crate::{
    clock, filters, input, keep, mutable_list, python_methods, python_repr, python_tests, session,
    source, to_json,
};

const NAME: &str = "chat";
const LIMITS: Subject = Subject::Template;

pub struct ChatTemplate {
    environment: Environment<'static>,
}

/// Creates the base environment once, outside of any session, because all sessions share it. Also
/// initialises what the engine keeps for all environments; a session must not do that.
pub fn prepare() -> &'static Environment<'static> {
    static BASE: OnceLock<Environment<'static>> = OnceLock::new();
    BASE.get_or_init(|| {
        let numbers = "{% autoescape true %}{{ 1 }}{% endautoescape %}";
        let _ = Environment::empty().render_str(numbers, ());
        let mut environment = Environment::new();
        if let Ok(syntax) = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
        {
            environment.set_syntax(syntax);
        }
        environment.set_debug(true);
        environment.set_unknown_method_callback(python_methods::call);
        environment.set_formatter(|out, state, value| {
            if let Some(reason) = session::overrun() {
                return Err(Error::new(ErrorKind::InvalidOperation, reason));
            }
            match value.kind() {
                ValueKind::Number | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
                    Ok(out.write_str(&python_repr::text_of(value)?)?)
                }
                _ => minijinja::escape_formatter(out, state, value),
            }
        });
        environment.add_filter("e", filters::escape);
        environment.add_filter("escape", filters::escape);
        environment.add_filter("float", filters::float);
        environment.add_filter("int", filters::int);
        environment.add_filter("replace", filters::replace);
        environment.add_filter("string", filters::string);
        environment.add_filter("tojson", to_json::tojson);
        environment.add_filter("from_json", filters::from_json);
        environment.add_filter("length", filters::length);
        environment.add_filter("count", filters::length);
        environment.add_filter("indent", filters::indent);
        environment.add_filter("trim", filters::trim);
        environment.add_test("iterable", python_tests::is_iterable);
        environment.add_test("sequence", python_tests::is_sequence);
        environment.add_function("raise_exception", filters::raise_exception);
        environment.add_function("strftime_now", clock::strftime_now);
        environment.add_function(source::MAKE_LIST, mutable_list::make);
        environment.add_function(source::KEEP, keep::keep);
        environment.remove_global("debug");
        environment
    })
}

impl ChatTemplate {
    pub fn compile(source: &[u8]) -> Result<ChatTemplate, Failure> {
        let source = std::str::from_utf8(source)
            .map_err(|_| Failure::new(Status::Invalid, "the template is not UTF-8"))?;
        let mut environment = prepare().clone();
        environment
            .add_template_owned(NAME, source::adapt(source))
            .map_err(|error| describe(&error, 0))?;
        Ok(ChatTemplate { environment })
    }

    /// Creates one rendering of the template. The caller creates and owns it outside of the
    /// session: objects that a session does not drop must not share the template.
    pub fn rendering(&self, input: Vec<u8>, n_instructions: u64) -> OneRendering {
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(n_instructions));
        OneRendering { environment, input }
    }
}

pub struct OneRendering {
    environment: Environment<'static>,
    input: Vec<u8>,
}

impl OneRendering {
    /// Runs on a separate thread, because the clock belongs to the thread.
    pub fn run(&self, limits: &Limits) -> Result<String, Failure> {
        let fail = |error: Error| describe(&error, limits.n_instructions);
        let input = input::parse(&self.input)?;
        if let Some(time) = &input.clock {
            clock::fix(time).map_err(fail)?;
        }
        let environment = &self.environment;
        let template = environment.get_template(NAME).map_err(fail)?;
        let mut rendering = Rendering {
            bytes: Vec::new(),
            max_bytes: limits.memory_bytes / 4,
        };
        let result = template
            .render_captured_to(input.variables, &mut rendering)
            .map(drop);
        result.map_err(|error| match error.kind() {
            ErrorKind::WriteFailure => Failure::new(Status::TooLarge, "the rendering is too long"),
            _ => fail(error),
        })?;
        String::from_utf8(rendering.bytes)
            .map_err(|_| Failure::new(Status::Failed, "the rendering is not UTF-8"))
    }
}

/// Collects the rendered text and limits its size.
struct Rendering {
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl io::Write for Rendering {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max_bytes - self.bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Formats an error as "line N: what", in one line.
fn describe(error: &Error, n_instructions: u64) -> Failure {
    let mut status = Status::Invalid;
    let mut message = error
        .line()
        .map_or(String::new(), |line| format!("line {line}: "));
    if error.kind() == ErrorKind::OutOfFuel {
        status = Status::TooLarge;
        message += &format!("the template executes more than {n_instructions} instructions");
    } else {
        if error
            .detail()
            .is_some_and(|d| [LIMITS.out_of_memory(), LIMITS.out_of_time()].contains(&d))
        {
            status = Status::TooLarge;
        }
        match error.detail() {
            Some(detail) if error.kind() == ErrorKind::InvalidOperation => message += detail,
            Some(detail) => message += &format!("{}: {detail}", error.kind()),
            None => message += &error.kind().to_string(),
        }
    }
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        message += &format!(": {inner}");
        cause = inner.source();
    }
    Failure::new(status, message)
}
