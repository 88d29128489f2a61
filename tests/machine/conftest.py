from tests.opened import frozen as frozen
