//! Go's `text/template` in Rust, with the functions of Sprig: templates that users of Helm and KUDO have render here to
//! the same text, and fail with the same messages.
//!
//! A [`Template`] is parsed once and rendered with a [`Value`], within [`Limits`]. The crate does no I/O, reads no clock and
//! no environment: what a function may know is in the [`Environment`]. Start reading at `template.rs`; `lexer`, `parser`
//! and `exec` are the language, `format` is Go's `fmt`, `functions` has the functions.
//!
//! ```
//! use setpoint_template::{Environment, Functions, Template, Value};
//!
//! let template = Template::new("greeting").with_functions(Functions::sprig());
//! let template = template.parse(r#"Hello, {{ .name | default "you" | upper }}!"#)?;
//! let data = serde_json::json!({"name": "world"});
//! let text = template.render(Value::from(&data), &Environment::default())?;
//! assert_eq!(text, "Hello, WORLD!");
//! # Ok::<(), setpoint_template::Error>(())
//! ```

mod duration;
mod error;
mod exec;
mod format;
mod functions;
mod lexer;
mod limits;
mod parser;
mod quote;
mod template;
mod time_format;
mod unicode;
mod value;

pub use error::Error;
pub use functions::{Context, Environment, Function, Functions, Type};
pub use limits::Limits;
pub use template::{MissingKey, Template};
pub use value::{ElementType, List, Map, NumberType, Operand, Value};
