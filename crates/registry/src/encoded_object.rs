//! [`EncodedObject`]: canonical JSON plus the header, ready to commit. The header is attached to the store's record, so
//! that the writer and the feed share one decoded `Arc<Stored>` and neither parses the bytes again.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use setpoint_api::Stored;
use setpoint_api::object::Header;
use setpoint_schema::CanonicalJson;
use setpoint_store::{Attachment, Record};

use crate::key;

/// An object in the form in which it is stored.
#[derive(Debug)]
pub(crate) struct EncodedObject {
    pub(crate) written: CanonicalJson,
    /// Its header without the version; absent where the kind can only read it from the bytes.
    pub(crate) header: Option<Header>,
}

/// The decoded object of a record, built by its first reader: the writer, which returns it in its response, or the
/// feed, which applies it to the cache.
#[derive(Debug)]
struct AttachedObject {
    /// Taken when the object is built.
    header: Mutex<Option<Box<Header>>>,
    body_at: u32,
    object: OnceLock<Arc<Stored>>,
}

/// The attachment of a record, from which its object is built.
pub(crate) fn attachment(header: Option<Header>, body_at: u32) -> Attachment {
    header.map_or_else(Attachment::default, |header| {
        Attachment::new(AttachedObject {
            header: Mutex::new(Some(Box::new(header))),
            body_at,
            object: OnceLock::new(),
        })
    })
}

/// The object attached to a record, if its writer attached one.
pub(crate) fn attached_object(record: &Record) -> Option<Arc<Stored>> {
    let attached: &AttachedObject = record.attachment.find()?;
    let object = attached.object.get_or_init(|| {
        let header = attached.header.lock().take();
        let header = *header.expect("the header is taken once, and here");
        let header = Header {
            resource_version: key::version(record.modified),
            ..header
        };
        Arc::new(Stored::new(header, record.value.clone(), attached.body_at))
    });
    Some(object.clone())
}
