//! Identifiers, and the words that cannot be one.

const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

/// Words that are values.
const LITERALS: [&str; 3] = ["true", "false", "null"];

/// Whether a word is reserved by the language, so that it cannot be an identifier.
pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The same, including the words that are values.
pub(crate) fn is_word_reserved(word: &str) -> bool {
    is_reserved(word) || LITERALS.contains(&word)
}

/// Whether a name can be that of a variable.
///
/// ```
/// # use setpoint_cel::is_identifier;
/// assert!(is_identifier("_replicas2"));
/// assert!(!is_identifier("namespace"));
/// ```
pub fn is_identifier(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts_well = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    starts_well && name.bytes().all(is_word) && !is_word_reserved(name)
}
