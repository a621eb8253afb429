# Arrays that callers hand in, checked and named before a view is taken.

cdef int check_array(str name, object array, str dtype, tuple shape, bint write=*) except -1
cdef int check_apart(str names, tuple arrays) except -1
cdef object whole(object value, str name)
cdef char[::1] aligned_bytes(size_t size)
