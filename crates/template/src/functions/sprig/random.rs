//! Random strings and numbers, and UUIDs.

use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use uuid::Uuid;

use super::super::Type::{Int, String as Text};
use super::super::{Context, Row, row};
use super::text::text;
use crate::value::{Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("randAlphaNum", &[Int], |context, args| {
        random(context, args, |c| c.is_ascii_alphanumeric())
    }),
    row("randAlpha", &[Int], |context, args| {
        random(context, args, |c| c.is_ascii_alphabetic())
    }),
    row("randNumeric", &[Int], |context, args| {
        random(context, args, |c| c.is_ascii_digit())
    }),
    row("randAscii", &[Int], |context, args| {
        random(context, args, |c| (b' '..=b'~').contains(c))
    }),
    row("randInt", &[Int, Int], |_, args| {
        let (start, end) = (args[0].as_int(), args[1].as_int());
        match start < end {
            true => Ok(Value::Int(rand::rng().random_range(start..end))),
            false => Err("invalid argument to Intn".to_owned()),
        }
    }),
    row("randBytes", &[Int], rand_bytes),
    row("shuffle", &[Text], |_, args| {
        let mut chars: Vec<char> = args[0].as_str().chars().collect();
        chars.shuffle(&mut rand::rng());
        text(chars.into_iter().collect::<String>())
    }),
    row("uuidv4", &[], |_, _| text(Uuid::new_v4().to_string())),
];

/// As many random characters of a class as the argument.
fn random(context: &Context<'_>, args: &[Operand], is_member: fn(&u8) -> bool) -> Result<Value, String> {
    let count = usize::try_from(args[0].as_int()).unwrap_or(0);
    context.charge(count)?;
    let members: Vec<u8> = (b' '..=b'~').filter(is_member).collect();
    let mut rng = rand::rng();
    let chars = (0..count).filter_map(|_| members.choose(&mut rng));
    text(chars.map(|byte| char::from(*byte)).collect::<String>())
}

fn rand_bytes(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    use base64::Engine;
    let count =
        usize::try_from(args[0].as_int()).map_err(|_| "runtime error: makeslice: len out of range")?;
    context.charge(count)?;
    let mut bytes = vec![0; count];
    rand::rng().fill(&mut bytes[..]);
    text(base64::engine::general_purpose::STANDARD.encode(bytes))
}
