//! An object that is ready to be stored, and what becomes of it once it is: made once, by whoever needs it first.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use setpoint_api::Stored;
use setpoint_api::object::Header;
use setpoint_schema::Written;
use setpoint_store::{Memo, Record};

use crate::key;

/// An object as it will be stored.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) written: Written,
    /// All of its header but the version, unless the bytes have to tell.
    pub(crate) header: Option<Header>,
}

/// The object of a record. The writer, who gets it as the answer, and the feed, which brings it to the cache, share it,
/// and neither reads the bytes again.
#[derive(Debug)]
struct Made {
    /// Taken when the object is made.
    header: Mutex<Option<Box<Header>>>,
    body_at: u32,
    object: OnceLock<Arc<Stored>>,
}

/// What a record is to know of its object.
pub(crate) fn memo(header: Option<Header>, body_at: u32) -> Memo {
    header.map_or_else(Memo::default, |header| {
        Memo::new(Made {
            header: Mutex::new(Some(Box::new(header))),
            body_at,
            object: OnceLock::new(),
        })
    })
}

/// The object of a record, if its writer left word of it.
pub(crate) fn object(record: &Record) -> Option<Arc<Stored>> {
    let made: &Made = record.memo.find()?;
    let object = made.object.get_or_init(|| {
        let header = made.header.lock().take();
        let header = *header.expect("the header is taken once, and here");
        let header = Header {
            resource_version: key::version(record.modified),
            ..header
        };
        Arc::new(Stored::new(header, record.value.clone(), made.body_at))
    });
    Some(object.clone())
}
