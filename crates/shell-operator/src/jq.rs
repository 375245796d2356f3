//! jq programs: compiled once, applied to many objects.
//!
//! The interpreter is jaq. A program has a time limit, which is checked at each output value, and a limit for the size of
//! its result. A program that computes for ever without an output is not interrupted: hooks are as trusted as this process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::write::Pp;
use jaq_json::{Val, read};
use jiff::Timestamp;
use setpoint_api::Clock;

/// A compiled program. It is shared by all threads.
pub struct Filter {
    text: String,
    program: jaq_core::Filter<data::JustLut<Val>>,
    clock: Arc<dyn Clock>,
}

/// Why a program cannot be compiled or has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not a jq program.
    #[error("invalid jq program {0:?}: {1}")]
    Syntax(String, String),
    /// The input is not JSON.
    #[error("the input is not JSON: {0}")]
    Input(String),
    /// The program has failed on this input.
    #[error("{0}")]
    Failed(String),
    /// The program has taken too long.
    #[error("the jq program {0:?} has not ended within {1:?}")]
    Timeout(String, Duration),
    /// The result is too large.
    #[error("the result of the jq program {0:?} is larger than {1} bytes")]
    TooLarge(String, usize),
}

/// How long one program may run on one object.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The largest result of a program. An object has at most 1.5 MiB in etcd.
const MAX_RESULT_BYTES: usize = 16 << 20;

impl Filter {
    /// Compiles a program.
    pub fn compile(text: &str, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
        let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let arena = Arena::default();
        let file = File { code: text, path: () };
        let modules = Loader::new(definitions)
            .load(&arena, file)
            .map_err(|errors| Error::Syntax(text.to_owned(), load_message(&errors)))?;
        let program = Compiler::default()
            .with_funs(functions)
            .compile(modules)
            .map_err(|errors| Error::Syntax(text.to_owned(), compile_message(&errors)))?;
        let text = text.to_owned();
        Ok(Self { text, program, clock })
    }

    /// The text of the program.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The result for a JSON input, as JSON with sorted keys: `null` if there is no output, an array if there are several.
    pub fn apply(&self, json: &[u8]) -> Result<String, Error> {
        let input = read::parse_single(json).map_err(|error| Error::Input(error.to_string()))?;
        let started = self.clock.now();
        let context = Ctx::<data::JustLut<Val>>::new(&self.program.lut, Vars::new([]));
        let mut outputs = Outputs::default();
        for output in self.program.id.run((context, input)).map(unwrap_valr) {
            let output = output.map_err(|error| Error::Failed(error.to_string()))?;
            outputs.push(&output).map_err(|reason| self.too_large(reason))?;
            self.check_time(started)?;
        }
        Ok(outputs.into_json())
    }

    fn check_time(&self, started: Timestamp) -> Result<(), Error> {
        let passed = self.clock.now().duration_since(started).unsigned_abs();
        match passed > TIME_LIMIT {
            true => Err(Error::Timeout(self.text.clone(), TIME_LIMIT)),
            false => Ok(()),
        }
    }

    fn too_large(&self, error: WriteError) -> Error {
        match error {
            WriteError::TooLarge => Error::TooLarge(self.text.clone(), MAX_RESULT_BYTES),
            WriteError::Encoding(message) => Error::Failed(message),
        }
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.text).finish()
    }
}

/// The output values of a program so far, separated by commas.
#[derive(Default)]
struct Outputs {
    bytes: Vec<u8>,
    count: usize,
}

enum WriteError {
    TooLarge,
    Encoding(String),
}

impl Outputs {
    fn push(&mut self, value: &Val) -> Result<(), WriteError> {
        if self.count > 0 {
            self.bytes.push(b',');
        }
        self.count += 1;
        let style = Pp {
            sort_keys: true,
            ..Pp::default()
        };
        jaq_json::write::write(&mut self.bytes, &style, 0, value)
            .map_err(|error| WriteError::Encoding(error.to_string()))?;
        match self.bytes.len() > MAX_RESULT_BYTES {
            true => Err(WriteError::TooLarge),
            false => Ok(()),
        }
    }

    fn into_json(self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        match self.count {
            0 => "null".to_owned(),
            1 => text.into_owned(),
            _ => format!("[{text}]"),
        }
    }
}

fn load_message<P>(errors: &jaq_core::load::Errors<&str, P>) -> String {
    let messages = errors.iter().map(|(_, error)| match error {
        jaq_core::load::Error::Io(errors) => {
            let messages = errors.iter().map(|(path, error)| format!("{path}: {error}"));
            messages.collect::<Vec<_>>().join(", ")
        }
        jaq_core::load::Error::Lex(errors) => {
            let messages = errors
                .iter()
                .map(|(expected, rest)| format!("expected {} at {rest:?}", expected.as_str()));
            messages.collect::<Vec<_>>().join(", ")
        }
        jaq_core::load::Error::Parse(errors) => {
            let messages = errors
                .iter()
                .map(|(expected, rest)| format!("expected {} at {rest:?}", expected.as_str()));
            messages.collect::<Vec<_>>().join(", ")
        }
    });
    messages.collect::<Vec<_>>().join("; ")
}

fn compile_message<P>(errors: &jaq_core::compile::Errors<&str, P>) -> String {
    let messages = errors.iter().flat_map(|(_, errors)| {
        errors
            .iter()
            .map(|(name, undefined)| format!("undefined {} {name}", undefined.as_str()))
    });
    messages.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    #[track_caller]
    fn check(program: &str, input: &str, expected: Result<&str, &str>) {
        let outcome = Filter::compile(program, Arc::new(SystemClock::new()))
            .and_then(|filter| filter.apply(input.as_bytes()))
            .map_err(|error| error.to_string());
        match (outcome, expected) {
            (Ok(result), Ok(expected)) => assert_eq!(result, expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (outcome, expected) => panic!("{outcome:?} instead of {expected:?}"),
        }
    }

    #[tokio::test]
    async fn one_output_is_the_result() {
        check(
            ".metadata.labels",
            r#"{"metadata":{"labels":{"b":1,"a":"x"}}}"#,
            Ok(r#"{"a":"x","b":1}"#),
        );
        check("[.a, .b]", r#"{"a":1}"#, Ok("[1,null]"));
        check(
            "{n: .a, (.b): 1}",
            r#"{"a":true,"b":"k"}"#,
            Ok(r#"{"k":1,"n":true}"#),
        );
        check(r#".a | @base64d"#, r#"{"a":"aGVsbG8="}"#, Ok(r#""hello""#));
        check(r#".a | test("^x[0-9]+$")"#, r#"{"a":"x12"}"#, Ok("true"));
    }

    #[tokio::test]
    async fn no_output_is_null_and_several_are_an_array() {
        check("empty", "{}", Ok("null"));
        check(".[]", "[1,2]", Ok("[1,2]"));
        check("select(.a == 1)", r#"{"a":2}"#, Ok("null"));
    }

    #[tokio::test]
    async fn invalid_programs_and_failures_are_reported() {
        check(".a | ", "{}", Err("invalid jq program"));
        check("nosuchfunction", "{}", Err("nosuchfunction"));
        check(".a.b", r#"{"a":1}"#, Err("cannot"));
        check(".", "{", Err("not JSON"));
        check(r#"error("bad object")"#, "{}", Err("bad object"));
    }
}
