//! JSON syntax errors, with the messages of Go's `encoding/json`, as kube-apiserver returns them.

/// A JSON syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("unexpected end of JSON input")]
    End,
    /// A byte that is not allowed in its context.
    #[error("invalid character {} {context}", quoted(*.byte))]
    Byte { byte: u8, context: &'static str },
    #[error("exceeded max depth")]
    Depth,
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
}

/// A byte in single quotes, escaped as Go's `encoding/json` does.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        b'\\' => r"'\\'".into(),
        b'\n' => r"'\n'".into(),
        b'\r' => r"'\r'".into(),
        b'\t' => r"'\t'".into(),
        0x07 => r"'\a'".into(),
        0x08 => r"'\b'".into(),
        0x0b => r"'\v'".into(),
        0x0c => r"'\f'".into(),
        0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
